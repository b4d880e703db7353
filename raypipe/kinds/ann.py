"""Indexes for approximate search of embeddings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from raypipe.config.fields import OWN, AutoOrCount, Name, Section, Seed, Source
from raypipe.config.yaml import Problem
from raypipe.errors import InputError
from raypipe.kinds.encode import Truncate, encoded_problems
from raypipe.kinds.kind import Around, Kind, Reference
from raypipe.names import Role, of_stage

if TYPE_CHECKING:
    from raypipe.driver.recipe.graph import Graph, System
    from raypipe.storage.store import Stored

TRAIN_ROWS_PER_LIST = 64


_GUIDELINES = "faiss's Guidelines to choose an index"


class Hnsw(Section):
    """A graph of the passages: fast, as large as the embeddings, built by one thread."""

    links: Annotated[int, Field(ge=2, le=512), Source(OWN)] = 32
    """Links of a passage to others; twice as many on the lowest level."""
    ef_construction: Annotated[int, Field(ge=1, le=10_000), Source(OWN)] = 200
    """Passages looked at for the links of each."""


class IvfPq(Section):
    """Lists of compressed passages: small, trained once, added a shard at a time."""

    lists: Annotated[AutoOrCount, Source(f"{_GUIDELINES}: 4 sqrt(passages)")] = "auto"
    """Number of lists."""
    code_bytes: Annotated[AutoOrCount, Source(OWN)] = "auto"
    """Bytes of a passage's code, a divisor of the dimensions; auto: one for 8 dimensions."""
    train_rows: Annotated[AutoOrCount, Source(f"{_GUIDELINES}: 30 to 256 a list; here 64")] = "auto"
    """Passages that the lists and codes are trained on."""
    seed: Annotated[Seed, Source(OWN)] = 0
    """Draws these passages and the first centres."""


class Ann(Kind):
    """An index for approximate search of embeddings: a graph, or lists of compressed passages."""

    labels: ClassVar = {"ann": "index"}
    references: ClassVar = (Reference(("embeddings",), "index"),)

    do: Literal["ann"]
    embeddings: Name
    """An earlier `encode` or `truncate` stage."""
    hnsw: Hnsw | None = None
    """`hnsw: {}` has every default; an index without `ivf_pq` is this one."""
    ivf_pq: IvfPq | None = None
    """`ivf_pq: {}` has every default."""

    def problems(self, name: str, around: Around) -> Iterator[Problem]:
        """Checks that it is over embeddings, and is one index."""
        key = ("stages", name)
        yield from encoded_problems(name, self.embeddings, around, truncated=True)
        if self.hnsw is not None and self.ivf_pq is not None:
            yield Problem((*key, "ivf_pq"), "found hnsw too; an index is one of them, remove one")

    def resolved(self, stages: Mapping[str, Kind]) -> Kind:
        """With a graph if nothing is chosen."""
        if self.hnsw is None and self.ivf_pq is None:
            return self.model_copy(update={"hnsw": Hnsw()})
        return self

    def make(self, graph: Graph, name: str, inputs: Mapping[str, System]) -> System:
        """The index; always built anew for other embeddings, since no part of it is reused."""
        from raypipe.driver.recipe.graph import System
        from raypipe.stages.ann.build import CodesStage, hnsw_stage

        encoded = inputs[self.embeddings]
        embeddings = encoded.stored
        if self.ivf_pq is None:
            assert self.hnsw is not None  # resolved
            links = hnsw_stage(embeddings, self.hnsw.links, self.hnsw.ef_construction)
            stored = graph.store_of(of_stage(name), links)
        else:
            centres = centres_of(graph, name, self.ivf_pq, embeddings, encoded.model)
            stored = graph.store_of(of_stage(name), CodesStage(embeddings, centres))
        return System(
            name, "index", stored, model=encoded.model, start_weights=encoded.start_weights
        )


def centres_of(
    graph: Graph, name: str, wanted: IvfPq, embeddings: Stored, model_name: str
) -> Stored:
    """The centres of the lists and codes of the index `name`.

    Raises:
        InputError: the bytes of a code do not divide the dimensions.
    """
    from raypipe.engines.ann_settings import code_bytes_for
    from raypipe.stages.ann.build import train_stage

    index = graph.recipe.stages[name]
    assert isinstance(index, Ann)
    over = graph.recipe.stages[index.embeddings]
    dim = over.dims if isinstance(over, Truncate) else graph.model(model_name).dim
    num_rows = embeddings.num_rows
    lists = lists_of(wanted, num_rows)
    code_bytes = code_bytes_for(dim) if wanted.code_bytes == "auto" else wanted.code_bytes
    if dim % code_bytes:
        raise InputError(
            f"stages.{name}.ivf_pq.code_bytes: found {code_bytes}, expected a divisor of "
            f"{dim}, the embeddings' dimensions"
        )
    train_rows = lists * TRAIN_ROWS_PER_LIST if wanted.train_rows == "auto" else wanted.train_rows
    stage = train_stage(embeddings, lists, code_bytes, train_rows, wanted.seed)
    return graph.store_of(of_stage(name, role=Role.CENTRES), stage)


def lists_of(wanted: IvfPq, num_rows: int) -> int:
    """The number of lists of an index of so many rows."""
    from raypipe.engines.ann_settings import lists_for

    return lists_for(num_rows) if wanted.lists == "auto" else wanted.lists
