"""The stage that fuses several runs into one."""

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from raypipe.config.fields import OWN, Count, Listed, Name, NotNegative, Source
from raypipe.config.pipeline.kinds.kind import Around, Kind, Reference, absent
from raypipe.config.yaml.document import Problem
from raypipe.vocabulary import DEPTH, RRF_K, FusionMethod


class Fuse(Kind):
    """Fuses several runs into one; `raypipe.ranking.fuse` has each method's equation."""

    labels: ClassVar = {"fuse": "run"}
    references: ClassVar = (Reference(("runs",), "run", "list"),)

    do: Literal["fuse"]
    runs: Annotated[tuple[Name, ...], Listed, Field(min_length=2)]
    """Earlier run stages; `alternate` takes the first one's best passage first."""
    method: FusionMethod
    weights: Annotated[
        tuple[NotNegative, ...] | None,
        Listed,
        Source(f"equal weights, {OWN}", value=lambda fuse: equal_weights(len(fuse.runs))),
    ] = None
    """One weight per run, not all 0; for `weighted` only."""
    k: Annotated[NotNegative | None, Source("Cormack et al. 2009, section 2", value=RRF_K)] = None
    """The constant of `rrf`; for that method only."""
    depth: Annotated[Count, Source("Nogueira et al. 2019: 1,000 candidates")] = DEPTH

    def problems(self, name: str, around: Around) -> Iterator[Problem]:
        """Checks that no run is given twice, and weights and k only with their methods."""
        key = ("stages", name)
        for i, run in enumerate(self.runs):
            if run in self.runs[:i]:
                yield Problem((*key, "runs", i), f"{run} given twice; keep one of them")
        if self.weights is not None and self.method != "weighted":
            text = f"for method weighted only, not {self.method}; remove them"
            yield Problem((*key, "weights"), text)
        elif self.weights is not None and len(self.weights) != len(self.runs):
            text = f"expected {len(self.runs)}, one for each of the runs"
            yield Problem((*key, "weights"), f"{text}; found {len(self.weights)}")
        elif self.weights is not None and not any(self.weights):
            yield Problem((*key, "weights"), "expected one above 0, for something to rank by")
        if self.k is not None and self.method != "rrf":
            yield Problem((*key, "k"), f"for method rrf only, not {self.method}; remove it")

    def resolved(self, stages: Mapping[str, Kind]) -> Kind:
        """The stage with the method's own constants filled in."""
        if self.method == "rrf":
            return self.model_copy(update=absent(self.k, k=RRF_K))
        if self.method == "weighted":
            weights = equal_weights(len(self.runs))
            return self.model_copy(update=absent(self.weights, weights=weights))
        return self

    @property
    def ranks(self) -> Literal["as its runs"]:
        """Passages or documents, as the runs do."""
        return "as its runs"

    @property
    def reads(self) -> Literal["as the first"]:
        """One of both, in all runs."""
        return "as the first"

    @property
    def inputs(self) -> tuple[str, ...]:
        """The stages with the runs."""
        return self.runs


def equal_weights(num_runs: int) -> tuple[float, ...]:
    """The weights of `weighted` if none are given; they sum to 1."""
    return (1 / num_runs,) * num_runs
