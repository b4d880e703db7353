"""The stage that reads an existing ranking."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from raypipe.config.fields import OWN, Location, Name, Source
from raypipe.config.pipeline.kinds.kind import Kind, Locate, Reference
from raypipe.vocabulary import BreakTies, Unit


class Read(Kind):
    """An existing ranking, one run file per query set."""

    labels: ClassVar = {"read": "run"}
    references: ClassVar = (Reference(("runs",), "query set", "keys"),)

    do: Literal["read"]
    runs: Annotated[dict[Name, Location], Field(min_length=1)]
    of: Annotated[Unit, Source(OWN)] = "passages"
    """What the files rank: the collection's passages, or its documents."""
    break_ties: Annotated[BreakTies, Source(OWN)] = "id"
    """How equal scores of a file without ranks, or of a TREC file, are ordered: by passage id
    descending, as in trec_eval, or as in the file."""
    larger_collection: Annotated[str, Field(min_length=1), Source(OWN)] | None = None
    """The name of a larger collection that the files rank, of which this one is a part: lines of
    passages that are not here are left out and counted, and tables mark the run."""

    @property
    def ranks(self) -> Unit:
        """What the files rank."""
        return self.of

    def located(self, locate: Locate) -> Self:
        """The stage with absolute paths."""
        return self.model_copy(update={"runs": {q: locate(p) for q, p in self.runs.items()}})

    def files(self) -> Iterator[tuple[str, str, str]]:
        """The run files."""
        for query_set, path in self.runs.items():
            yield f"runs.{query_set}", path, "a run file"
