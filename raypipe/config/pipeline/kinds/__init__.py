"""The kinds of stages a recipe can have, one file each; the key `do` picks one.

A stage's name is the name of its system, its store, its run file and its TREC tag. Add a kind that
needs no resolving to `Plain`. Add one that does to `Written`, and the type that it resolves to to
`Stage`.
"""

from typing import Annotated, get_args

from pydantic import Field

from raypipe.config.pipeline.kinds.aggregate import Aggregate
from raypipe.config.pipeline.kinds.ann import Ann
from raypipe.config.pipeline.kinds.documents import Documents
from raypipe.config.pipeline.kinds.encode import Encode
from raypipe.config.pipeline.kinds.fuse import Fuse
from raypipe.config.pipeline.kinds.index import Index
from raypipe.config.pipeline.kinds.kind import Kind, Produces
from raypipe.config.pipeline.kinds.passages import Passages
from raypipe.config.pipeline.kinds.read import Read
from raypipe.config.pipeline.kinds.score import DuoScore, MonoScore, Score
from raypipe.config.pipeline.kinds.search import AnnSearch, Bm25Search, DenseSearch, Search

Plain = Index | Encode | Ann | Read | Fuse | Aggregate | Documents | Passages
Written = Annotated[Search | Score | Plain, Field(discriminator="do")]
"""A stage as written in a recipe."""
Stage = Bm25Search | DenseSearch | AnnSearch | MonoScore | DuoScore | Plain
"""A stage of a recipe that was loaded."""

_KINDS: tuple[type[Kind], ...] = get_args(get_args(Written)[0])
KINDS: dict[str, type[Kind]] = {
    do: kind for kind in _KINDS for do in get_args(kind.model_fields["do"].annotation)
}
"""The kinds by their word for `do`."""


def labels_of(produces: Produces) -> tuple[str, ...]:
    """The names, in messages, of the kinds whose stages make this; sorted."""
    found = [
        label for kind in KINDS.values() for label, made in kind.labels.items() if made == produces
    ]
    return tuple(sorted(found))


__all__ = [
    "KINDS",
    "Aggregate",
    "Ann",
    "AnnSearch",
    "Bm25Search",
    "DenseSearch",
    "Documents",
    "DuoScore",
    "Encode",
    "Fuse",
    "Index",
    "Kind",
    "MonoScore",
    "Passages",
    "Plain",
    "Produces",
    "Read",
    "Score",
    "Search",
    "Stage",
    "Written",
    "labels_of",
]
