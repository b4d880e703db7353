"""Existing rankings, read from files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from raypipe.config.fields import OWN, Location, Name, Source
from raypipe.errors import InputError
from raypipe.kinds.kind import Kind, Reference
from raypipe.names import of_stage
from raypipe.vocabulary import BreakTies, Unit

if TYPE_CHECKING:
    from raypipe.driver.recipe.graph import Graph, System
    from raypipe.storage.store import Stored


class GivenRun(Kind):
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
        """The unit that the files rank."""
        return self.of

    def make(self, graph: Graph, name: str, query_set: str, inputs: Mapping[str, System]) -> System:
        """The run in a file.

        Raises:
            InputError: the stage has no file for the query set.
        """
        from raypipe.driver.recipe.graph import System
        from raypipe.stages.read_run import read_stage

        if query_set not in self.runs:
            raise InputError(f"stages.{name}.runs: no file for the query set {query_set}")
        file = Path(self.runs[query_set])
        sides = graph.sides(query_set, self.of)
        ids = graph.ids() if self.of == "passages" else graph.document_ids()
        larger = self.larger_collection
        read = read_stage(
            name,
            file,
            sides,
            ids,
            of_larger=larger is not None,
            break_ties=self.break_ties,
            unjudged=graph.unjudged(query_set),
            excluded=graph.excluded(query_set, self.of),
        )
        stored = graph.stores.ensure(of_stage(name, query_set), read)
        what = "as read" if larger is None else f"as read, a ranking of {larger}"
        note = "" if larger is None else left_out(name, larger, stored)
        unordered = int(stored.manifest.records[0].facts.get("unordered", 0))
        if unordered:
            note += "; " if note else ""
            note += f"{name}: candidates without ranks and scores, in the order of their file"
        return System(
            name,
            "run",
            stored,
            reranks=what,
            model=file.name,
            unit=self.of,
            unordered=unordered,
            note=note,
        )


def left_out(name: str, larger: str, stored: Stored) -> str:
    """The line below a table about a run that was filtered to the collection."""
    facts = stored.manifest.records[0].facts
    return (
        f"{name} ranks {larger}, not this collection: {facts['left_out']:,} of its "
        f"{facts['lines']:,} lines are of passages that are not here and were left out"
    )
