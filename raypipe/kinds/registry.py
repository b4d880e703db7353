"""The kinds of stages that a recipe can have; the key `do` picks one.

A stage's name is the name of its system, its store, its run file and its TREC tag. A kind is a
module of this folder and its name in `PlainIndex` or `PlainRanking`. One that is resolved to
another class stands in `Written`, and that class in `Index` or `Ranking`.
"""

from typing import Annotated, get_args

from pydantic import Field

from raypipe.kinds.aggregate import Aggregate
from raypipe.kinds.ann import Ann
from raypipe.kinds.documents import DocumentRun, PassageRun
from raypipe.kinds.encode import Encode, Truncate
from raypipe.kinds.fuse import Fuse
from raypipe.kinds.kind import Kind, Produces
from raypipe.kinds.lucene import ImpactIndex, LuceneIndex
from raypipe.kinds.read import GivenRun
from raypipe.kinds.score import DuoScore, MonoScore, Score
from raypipe.kinds.search import AnnSearch, Bm25Search, DenseSearch, Search

PlainIndex = LuceneIndex | Encode | Truncate | Ann
PlainRanking = GivenRun | Fuse | Aggregate | DocumentRun | PassageRun
Written = Annotated[Search | Score | PlainIndex | PlainRanking, Field(discriminator="do")]
"""A stage as written in a recipe."""
Index = PlainIndex | ImpactIndex
"""A stage of a recipe that was loaded: one store for all query sets."""
Ranking = PlainRanking | Bm25Search | DenseSearch | AnnSearch | MonoScore | DuoScore
"""A stage of a recipe that was loaded: a store for each query set."""
Stage = Index | Ranking

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
