"""Several runs fused into one, or one run cut."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from raypipe.config.fields import OWN, Count, Listed, Name, NotNegative, Source
from raypipe.config.yaml import Problem
from raypipe.kinds.kind import Around, Kind, Reference, absent
from raypipe.names import of_stage
from raypipe.vocabulary import DEPTH, RRF_K, FusionMethod

if TYPE_CHECKING:
    from raypipe.driver.recipe.graph import Graph, System


class Fuse(Kind):
    """Fuses several runs into one; `raypipe.ranking.fuse` has each method's equation. A single run
    is cut at `depth`, in its own order and with its own scores."""

    labels: ClassVar = {"fuse": "run"}
    references: ClassVar = (Reference(("runs",), "run", "list"),)

    do: Literal["fuse"]
    runs: Annotated[tuple[Name, ...], Listed, Field(min_length=1)]
    """Earlier run stages; `alternate` takes the first one's best passage first."""
    method: FusionMethod | None = None
    """Needed for two runs or more; a single run has none."""
    weights: Annotated[
        tuple[NotNegative, ...] | None,
        Listed,
        Source(f"equal weights, {OWN}", value=lambda fuse: equal_weights(len(fuse.runs))),
    ] = None
    """One weight per run, not all 0, equal by default; for `weighted` only."""
    k: Annotated[NotNegative | None, Source("Cormack et al. 2009, section 2", value=RRF_K)] = None
    """The constant of `rrf`; for that method only."""
    depth: Annotated[Count, Source("Nogueira et al. 2019: 1,000 candidates")] = DEPTH
    """Passages per query."""

    def problems(self, name: str, around: Around) -> Iterator[Problem]:
        """Checks that no run is given twice, and weights and k only with their methods."""
        key, how, weights = ("stages", name), self.method or "one run", self.weights
        for i, run in enumerate(self.runs):
            if run in self.runs[:i]:
                yield Problem((*key, "runs", i), f"{run} given twice; keep one of them")
        if (self.method is None) != (len(self.runs) == 1):
            yield Problem((*key, "method"), "expected one for two runs or more, none to cut one")
        if weights is not None and self.method != "weighted":
            yield Problem((*key, "weights"), f"for method weighted only, not {how}; remove them")
        elif weights is not None and len(weights) != len(self.runs):
            text = f"expected {len(self.runs)}, one for each of the runs; found {len(weights)}"
            yield Problem((*key, "weights"), text)
        elif weights is not None and not any(weights):
            yield Problem((*key, "weights"), "expected one above 0, for something to rank by")
        if self.k is not None and self.method != "rrf":
            yield Problem((*key, "k"), f"for method rrf only, not {how}; remove it")

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

    def make(self, graph: Graph, name: str, query_set: str, inputs: Mapping[str, System]) -> System:
        """The runs of a query set, fused into one; or its only run, cut."""
        from raypipe.driver.recipe.graph import Chain, System
        from raypipe.stages.fuse import fuse_stage

        unit = inputs[self.runs[0]].unit
        fuse = fuse_stage(
            name,
            {run: inputs[run].stored for run in self.runs},
            graph.sides(query_set, unit),
            self.method,
            self.depth,
            self.weights,
            self.k,
        )
        store = of_stage(name, query_set)
        stored = graph.stores.ensure(store, fuse)
        chain = Chain().then(*(inputs[run].chain for run in self.runs), Chain((store,)))
        how = self.method or f"first {self.depth:,}"
        return System(name, "run", stored, chain, " + ".join(self.runs), how, unit=unit)


def equal_weights(num_runs: int) -> tuple[float, ...]:
    """The weights of `weighted` if none are given; they sum to 1."""
    return (1 / num_runs,) * num_runs
