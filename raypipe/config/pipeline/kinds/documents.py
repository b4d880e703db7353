"""The stage that makes a run of documents from a run of their passages."""

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from raypipe.config.fields import OWN, Count, Name, Source
from raypipe.config.pipeline.kinds.kind import Around, Kind, Reference, absent
from raypipe.config.pipeline.kinds.score import Score
from raypipe.config.pipeline.parts import CIP
from raypipe.config.yaml.document import Problem
from raypipe.vocabulary import DEPTH, K_MAX, DocumentMethod, Unit


class Documents(Kind):
    """A run of documents; `raypipe.ranking.documents` has the methods."""

    labels: ClassVar = {"documents": "run"}
    references: ClassVar = (Reference(("run",), "run"),)

    do: Literal["documents"]
    run: Name
    """An earlier stage that ranks passages."""
    method: DocumentMethod
    k: Annotated[Count | None, Source(CIP, value=K_MAX)] = None
    """For k-max-avgp only: the number of passages whose scores are averaged."""
    over: Annotated[Literal["raw", "probability"], Source(OWN)] = "raw"
    """Which score of a passage is aggregated. A reranker's raw score is that of its one unit, or
    the difference of its two; `probability` is for a reranker's scores only."""
    depth: Annotated[Count, Source(OWN)] = DEPTH
    """Documents per query."""

    def problems(self, name: str, around: Around) -> Iterator[Problem]:
        """Checks that k is given for its method only, and that the scores have what is asked."""
        key = ("stages", name)
        if self.k is not None and self.method != "k-max-avgp":
            yield Problem((*key, "k"), f"for method k-max-avgp only, not {self.method}; remove it")
        run = around.stages.get(self.run)
        if self.over == "probability" and run is not None and not isinstance(run, Score):
            text = f"{self.run} has no probabilities; expected a stage of kind score, or over: raw"
            yield Problem((*key, "over"), text)
        if self.over == "raw" and isinstance(run, Score) and run.score == "probability":
            text = (
                f"{self.run} has probabilities, which no longer tell large raw scores apart; "
                f"remove stages.{self.run}.score, or write over: probability"
            )
            yield Problem((*key, "over"), text)

    def resolved(self, stages: Mapping[str, Kind]) -> Kind:
        """The stage with the k of its method."""
        return (
            self.model_copy(update=absent(self.k, k=K_MAX)) if self.method == "k-max-avgp" else self
        )

    @property
    def ranks(self) -> Unit:
        """Documents."""
        return "documents"

    @property
    def inputs(self) -> tuple[str, ...]:
        """The run."""
        return (self.run,)
