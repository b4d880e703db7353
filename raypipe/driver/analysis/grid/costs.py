"""Times of settings that were not run, derived from the measured times of those that were."""

from collections.abc import Mapping
from dataclasses import dataclass

from raypipe.analysis.tradeoff import Cell
from raypipe.config.stages import Aggregate
from raypipe.driver.analysis.finished import Finished
from raypipe.driver.analysis.grid.filled import Stages
from raypipe.names import of_stage
from raypipe.stages.query_blocks import num_lines


@dataclass(frozen=True, slots=True)
class Costs:
    """Measured milliseconds; None where the workspace does not know them."""

    first: float | None
    """Of the first stage, a query."""
    single: float | None
    """Of an inference of the first reranker."""
    pair: float | None
    """Of an inference of the second."""

    def of(self, cell: Cell) -> float | None:
        """Derived milliseconds a query."""
        if self.first is None or self.single is None:
            return None
        below = self.first + cell.singles * self.single
        if not cell.pairs:
            return below
        return None if self.pair is None else below + cell.pairs * self.pair


def aggregates_of(finished: Finished, pairs: str) -> dict[str, Aggregate]:
    """The stages that aggregate the pairs of a duoBERT stage, in the recipe's order."""
    stages = finished.recipe.stages.items()
    return {n: s for n, s in stages if isinstance(s, Aggregate) and s.pairs == pairs}


def costs_of(finished: Finished, query_set: str, stages: Stages) -> Costs:
    """Those of a duoBERT stage over a monoBERT stage.

    A pair's is taken from the first aggregation that was run. Its time is that of all pairs, though
    it may need fewer, as sample does.
    """
    told = finished.summary["systems"][query_set]
    num_queries = len(finished.queries(query_set))
    first, mono = told[stages.mono.run], told[stages.duo.run]
    more = (mono.get("inferences") or 0) - (first.get("inferences") or 0)
    pair = None
    aggregated = next((n for n in aggregates_of(finished, stages.name) if n in told), None)
    if aggregated is not None:
        num_pairs = num_lines(finished.stored(of_stage(stages.name, query_set)))
        pair = _each(mono, told[aggregated], num_queries, num_pairs)
    return Costs(first.get("ms_per_query"), _each(first, mono, num_queries, more), pair)


def _each(
    below: Mapping[str, float], above: Mapping[str, float], num_queries: int, more: int
) -> float | None:
    """Milliseconds of each of the inferences that one system has more than the one below it."""
    times = below.get("ms_per_query"), above.get("ms_per_query")
    if times[0] is None or times[1] is None or more <= 0:
        return None
    return (times[1] - times[0]) * num_queries / more
