"""The cells of a grid over stored scores, and their values by query."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe import schema
from raypipe.analysis.depth import cut, reranked_at
from raypipe.analysis.tradeoff import NUM_SEEDS, Cell, Setting, cell_run, settings, wanted_pairs
from raypipe.driver.analysis.finished import Finished
from raypipe.driver.analysis.grid.costs import aggregates_of
from raypipe.driver.analysis.grid.filled import Stages, filled, grid_of, k0s_of, k1s_of
from raypipe.driver.analysis.measuring import measured, measures_of, needed
from raypipe.evaluation.measured import Measured
from raypipe.ranking.candidates import Keys, missing
from raypipe.stages.scoring.grid import Grid
from raypipe.stages.scoring.scored import keys_of


@dataclass(frozen=True)
class Found:
    """The cells of a grid, and what is missing of it."""

    cells: list[Cell]
    num_cells: int
    """Of the whole grid."""
    num_absent: int
    """Pairs that the other cells need and that were not scored."""
    num_filled: int | None
    """Pairs that --fill scored; None if the grid was not filled."""


@dataclass(frozen=True)
class Computed:
    """A cell, and the values of its queries."""

    cell: Cell
    per_query: Mapping[str, Mapping[str, float]]
    """Measure -> query id -> value; for SAMPLE the mean over its draws."""


@dataclass(frozen=True)
class Scores:
    """What the rerankers of two stages gave for one query set, with what --fill added."""

    finished: Finished
    query_set: str
    stages: Stages

    @cached_property
    def first(self) -> pa.Table:
        """The run whose candidates were reranked, schema.RUN, as far as a measure needs it."""
        return self._needed(self.stages.mono.run)

    @cached_property
    def scored(self) -> pa.Table:
        """What the first reranker made of it, schema.RUN, likewise."""
        return self._needed(self.stages.duo.run)

    @cached_property
    def grid(self) -> Grid:
        """The pairs that the grid needs and that the recipe did not score."""
        return grid_of(self.finished, self.query_set, self.stages)

    @cached_property
    def added(self) -> pa.Table | None:
        """The pairs that --fill scored, schema.SCORES; None if the grid was not filled."""
        found = filled(self.finished, self.query_set, self.stages, self.grid)
        return None if found is None else found.whole_table(schema.SCORES)

    @cached_property
    def held(self) -> tuple[Keys, NDArray[np.float32]]:
        """Every pair with a score, and its probability."""
        pairs = self.finished.pairs(self.stages.name, self.query_set)
        if self.added is not None:
            pairs = pa.concat_tables([pairs, self.added])
        return keys_of(pairs), pairs["score"].to_numpy()

    @cached_property
    def tail(self) -> str:
        """The tail of the recipe's first aggregation of these pairs."""
        stages = aggregates_of(self.finished, self.stages.name).values()
        return next((stage.tail for stage in stages), "keep")

    def reranked(self, k0: int) -> pa.Table:
        """The first reranker's run with so many candidates."""
        by, tail = self.stages.duo.run, self.stages.mono.tail
        blend = self.grid.blend
        return reranked_at(self.first, self.scored, scored_by=by, depth=k0, tail=tail, blend=blend)

    def cell(self, setting: Setting, *, run: pa.Table | None = None) -> Computed | None:
        """The cell of a setting; None if pairs that it needs were not scored.

        `run` is `reranked(setting.k0)`, if it is known.
        """
        run = self.reranked(setting.k0) if run is None else run
        made, num_pairs = [run], 0.0
        if setting.k1:
            held, probabilities = self.held
            seeds = range(NUM_SEEDS if setting.m is not None else 1)
            wanted = [wanted_pairs(run, setting, seed) for seed in seeds]
            if any(missing(keys, held).any() for keys in wanted):
                return None
            made = [
                cell_run(run, setting, keys, held, probabilities, tail=self.tail) for keys in wanted
            ]
            num_pairs = len(wanted[0][0]) / self.num_queries  # as many in each draw
        return _computed(setting, self.singles(setting.k0), num_pairs, [*map(self._values, made)])

    def own(self, system: str, setting: Setting, seed: int) -> Computed:
        """A cell as the recipe ran it: the run of one of its systems."""
        wanted = wanted_pairs(self.reranked(setting.k0), setting, seed)
        run = self.finished.run(system, self.query_set)
        num_pairs = len(wanted[0]) / self.num_queries
        return _computed(setting, self.singles(setting.k0), num_pairs, [self._values(run)])

    def singles(self, k0: int) -> float:
        """Inferences a query of the first reranker with so many candidates."""
        return len(cut(self.first, k0)) / self.num_queries

    @property
    def num_queries(self) -> int:
        """Queries of the set, judged or not."""
        return len(self.finished.queries(self.query_set))

    def _needed(self, system: str) -> pa.Table:
        run, most = self.finished.run(system, self.query_set), self.stages.most
        return needed(self.finished, self.query_set, run, measures_of(self.finished), most=most)

    def _values(self, run: pa.Table) -> Measured:
        return measured(self.finished, self.query_set, run, measures_of(self.finished))


def cells_of(finished: Finished, query_set: str, stages: Stages) -> Found:
    """The cells that can be computed from the pairs that the recipe and --fill scored."""
    scores = Scores(finished, query_set, stages)
    k0s = k0s_of(stages.mono, scores.first)
    grid = settings(k0s, k1s_of(stages.duo, scores.scored))
    runs = {k0: scores.reranked(k0) for k0 in k0s}
    cells = [scores.cell(setting, run=runs[setting.k0]) for setting in grid]
    needed = scores.grid.all_keys
    num_absent = int(np.count_nonzero(missing(needed, scores.held[0])))
    added = None if scores.added is None else len(scores.added)
    return Found([each.cell for each in cells if each is not None], len(grid), num_absent, added)


def _computed(
    setting: Setting, singles: float, num_pairs: float, values: list[Measured]
) -> Computed:
    names = list(values[0].mean)
    means = {m: float(np.mean([value.mean[m] for value in values])) for m in names}
    drawn = [next(iter(value.mean.values())) for value in values]
    spread = float(np.std(drawn, ddof=1)) if len(drawn) > 1 else None
    per_query = {
        m: {
            query: float(np.mean([value.per_query[m][query] for value in values]))
            for query in values[0].per_query[m]
        }
        for m in names
        if m in values[0].per_query
    }
    return Computed(Cell(setting, singles, num_pairs, means, spread), per_query)
