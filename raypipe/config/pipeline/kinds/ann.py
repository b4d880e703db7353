"""An index for approximate search of embeddings."""

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from raypipe.config.fields import OWN, AutoOrCount, Name, Section, Seed, Source
from raypipe.config.pipeline.kinds.encode import Encode
from raypipe.config.pipeline.kinds.kind import Around, Kind, Reference
from raypipe.config.yaml.document import Problem

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
    """An earlier `encode` stage."""
    hnsw: Hnsw | None = None
    """`hnsw: {}` has every default; an index without `ivf_pq` is this one."""
    ivf_pq: IvfPq | None = None
    """`ivf_pq: {}` has every default."""

    def problems(self, name: str, around: Around) -> Iterator[Problem]:
        """Checks that it is over embeddings, and is one index."""
        key = ("stages", name)
        over = around.stages.get(self.embeddings)
        if over is not None and not isinstance(over, Encode):
            text = f"expected an encode stage; {self.embeddings} is of kind {over.do}"
            yield Problem((*key, "embeddings"), text)
        if self.hnsw is not None and self.ivf_pq is not None:
            yield Problem((*key, "ivf_pq"), "found hnsw too; an index is one of them, remove one")

    def resolved(self, stages: Mapping[str, Kind]) -> Kind:
        """With a graph if nothing is chosen."""
        if self.hnsw is None and self.ivf_pq is None:
            return self.model_copy(update={"hnsw": Hnsw()})
        return self

    @property
    def inputs(self) -> tuple[str, ...]:
        """The embeddings."""
        return (self.embeddings,)
