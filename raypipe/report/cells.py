"""Quality against inferences: the cells of a grid over k0, k1 and the aggregation.

Source: Nogueira et al. 2019 (Multi-stage document ranking with BERT), Figures 2 to 4. A cell is
computed from stored scores alone, and only if every score that it needs is there. Times of settings
that were not run are derived from the measured times of those that were.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe.evaluation.measures import Measured
from raypipe.kinds.aggregate import Aggregate
from raypipe.kinds.score import DuoScore, MonoScore
from raypipe.names import of_stage
from raypipe.ranking.blend import reranked_at
from raypipe.ranking.candidates import Keys, missing, pairs
from raypipe.ranking.rerank import aggregate_by_key
from raypipe.report.finished import (
    Finished,
    cut,
    depths_up_to,
    longest,
    measured,
    measures_of,
    needed,
)
from raypipe.stages.scoring.candidates import keys_of
from raypipe.stages.scoring.rerank import blend_and_depth
from raypipe.stages.tables import num_lines

K0S = (50, 100, 200, 500, 1000)
K1S = (10, 20, 30, 40, 50)
DRAWS = (10, 20, 30, 40)
"""m of SAMPLE."""
NUM_SEEDS = 10
"""Draws whose mean is told for SAMPLE, with seeds from 0."""
METHODS = ("sum", "binary", "min", "max")


@dataclass(frozen=True, slots=True)
class Setting:
    """One cell: which candidates are scored and how."""

    k0: int
    k1: int = 0
    """0: no second reranker."""
    method: str = ""
    m: int | None = None
    """Pairs drawn for each candidate, for SAMPLE."""

    @property
    def on_paper(self) -> int:
        """Inferences a query on the paper's axes: k0, and k1 (k1 - 1) or k1 (m - 1) pairs."""
        if not self.k1:
            return self.k0
        return self.k0 + self.k1 * ((self.k1 if self.m is None else self.m) - 1)


@dataclass(frozen=True, slots=True)
class Cell:
    """A setting with what it costs and gives."""

    setting: Setting
    singles: float
    """Inferences a query of the first reranker that these queries' lists ask for."""
    pairs: float
    """Inferences a query of the second: k1 min(m, k1 - 1) where lists are long enough."""
    means: Mapping[str, float]
    """Measure -> mean over the topics; for SAMPLE the mean over its draws."""
    spread: float | None = None
    """Standard deviation of the first measure over the draws of SAMPLE."""

    @property
    def needed(self) -> float:
        """Inferences a query that are really needed."""
        return self.singles + self.pairs


def settings(k0s: Iterable[int], k1s: Iterable[int]) -> list[Setting]:
    """The grid: for each k0 the first reranker alone, then every k1 with every aggregation."""
    grid = []
    for k0 in k0s:
        grid.append(Setting(k0))
        for k1 in k1s:
            grid += [Setting(k0, k1, method) for method in METHODS]
            grid += [Setting(k0, k1, "sample", m) for m in DRAWS if m < k1 - 1]
    return grid


def wanted_pairs(run: pa.Table, setting: Setting, seed: int) -> Keys:
    """The pairs that a setting asks for of a run (schema.RUN), sorted."""
    columns = (run[name].to_numpy() for name in ("query_row", "passage_row", "rank"))
    return pairs(*columns, k1=setting.k1, sample=setting.m, seed=seed)


def cell_run(
    run: pa.Table,
    setting: Setting,
    needed_pairs: Keys,
    scored_pairs: Keys,
    probabilities: NDArray[np.float32],
    *,
    tail: str = "keep",
) -> pa.Table:
    """The run of the second reranker over the first one's run, both schema.RUN, from stored pairs.

    `needed_pairs` are the setting's pairs. `tail`, `keep` or `drop`, is that of the stage that
    aggregates them.

    Raises:
        InputError: a pair that it needs was not scored.
    """
    return aggregate_by_key(
        run,
        needed_pairs,
        scored_pairs,
        probabilities,
        method=setting.method,
        k=setting.k1,
        tail=tail,
        scored_by="duo",
    )


def cheapest(cells: Sequence[Cell], measure: str, loss: float) -> Cell | None:
    """The cell with fewest inferences among those whose measure is within `loss` of the best.

    Ties go to the higher measure, then to the first. None if there are no cells.
    """
    best = max((cell.means[measure] for cell in cells), default=0.0)
    near = [cell for cell in cells if cell.means[measure] >= best - loss]
    return min(near, key=lambda cell: (cell.needed, -cell.means[measure]), default=None)


@dataclass(frozen=True)
class Stages:
    """A duoBERT stage over a monoBERT stage."""

    name: str
    """Name of the duoBERT stage in the recipe."""
    duo: DuoScore
    mono: MonoScore

    @property
    def most(self) -> int:
        """The deepest rank at which either reranks."""
        return max(self.mono.k0, self.duo.k1)


def stages_of(finished: Finished, query_set: str) -> Iterator[Stages]:
    """Each duoBERT stage over a monoBERT stage, in the recipe's order.

    Stages that the last invocation did not run, because of --until, are left out.
    """
    stages, ran = finished.recipe.stages, finished.systems(query_set)
    for name, duo in stages.items():
        if isinstance(duo, DuoScore) and isinstance(mono := stages[duo.run], MonoScore):
            scored = finished.has(of_stage(name, query_set))
            if scored and duo.run in ran and mono.run in ran:
                yield Stages(name, duo, mono)


def k0s_of(mono: MonoScore, first: pa.Table) -> list[int]:
    """The k0 of the grid's cells, up to what the recipe scored of the first stage's run."""
    return depths_up_to(min(mono.k0, longest(first)), K0S)


def k1s_of(duo: DuoScore, scored: pa.Table) -> list[int]:
    """The k1 of the grid's cells, up to what the recipe paired of the monoBERT stage's run."""
    return depths_up_to(min(duo.k1, longest(scored)), K1S)


@dataclass(frozen=True)
class GridCells:
    """The cells of a grid whose pairs were scored."""

    cells: list[Cell]
    num_cells: int
    """Number of cells in the whole grid."""


@dataclass(frozen=True)
class Computed:
    """A cell, and the values of its queries."""

    cell: Cell
    per_query: Mapping[str, Mapping[str, float]]
    """Measure -> query id -> value; for SAMPLE the mean over its draws."""


@dataclass(frozen=True)
class Scores:
    """Results of the rerankers of two stages for one query set."""

    finished: Finished
    query_set: str
    stages: Stages

    @cached_property
    def first(self) -> pa.Table:
        """The run whose candidates were reranked, schema.RUN, as far as a measure needs it."""
        return self._needed(self.stages.mono.run)

    @cached_property
    def scored(self) -> pa.Table:
        """The first reranker's run over those candidates, schema.RUN, likewise cut."""
        return self._needed(self.stages.duo.run)

    @cached_property
    def held(self) -> tuple[Keys, NDArray[np.float32]]:
        """Every pair with a score, and its probability."""
        pairs = self.finished.pairs(self.stages.name, self.query_set)
        return keys_of(pairs), pairs["score"].to_numpy()

    @cached_property
    def tail(self) -> str:
        """The tail of the recipe's first aggregation of these pairs."""
        stages = aggregates_of(self.finished, self.stages.name).values()
        return next((stage.tail for stage in stages), "keep")

    def reranked(self, k0: int) -> pa.Table:
        """The first reranker's run with so many candidates."""
        by, tail = self.stages.duo.run, self.stages.mono.tail
        blend = blend_and_depth(self.finished.stored(of_stage(by, self.query_set)))
        return reranked_at(self.first, self.scored, scored_by=by, depth=k0, tail=tail, blend=blend)

    def cell(self, setting: Setting, *, run: pa.Table | None = None) -> Computed | None:
        """The cell of a setting; None if pairs that it needs were not scored.

        `run` is `reranked(setting.k0)`, if it is known.
        """
        run = self.reranked(setting.k0) if run is None else run
        made, num_pairs = [run], 0.0
        if setting.k1:
            scored_pairs, probabilities = self.held
            seeds = range(NUM_SEEDS if setting.m is not None else 1)
            drawn_pairs = [wanted_pairs(run, setting, seed) for seed in seeds]
            if any(missing(keys, scored_pairs).any() for keys in drawn_pairs):
                return None
            made = [
                cell_run(run, setting, keys, scored_pairs, probabilities, tail=self.tail)
                for keys in drawn_pairs
            ]
            num_pairs = len(drawn_pairs[0][0]) / self.num_queries  # as many in each draw
        return _computed(setting, self.singles(setting.k0), num_pairs, [*map(self._values, made)])

    def own(self, system: str, setting: Setting, seed: int) -> Computed:
        """A cell as the recipe ran it: the run of one of its systems."""
        drawn_pairs = wanted_pairs(self.reranked(setting.k0), setting, seed)
        run = self.finished.run(system, self.query_set)
        num_pairs = len(drawn_pairs[0]) / self.num_queries
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


def cells_of(finished: Finished, query_set: str, stages: Stages) -> GridCells:
    """The cells that can be computed from the pairs that the recipe scored."""
    scores = Scores(finished, query_set, stages)
    k0s = k0s_of(stages.mono, scores.first)
    grid = settings(k0s, k1s_of(stages.duo, scores.scored))
    runs = {k0: scores.reranked(k0) for k0 in k0s}
    cells = [scores.cell(setting, run=runs[setting.k0]) for setting in grid]
    return GridCells([each.cell for each in cells if each is not None], len(grid))


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


@dataclass(frozen=True, slots=True)
class MeasuredCosts:
    """Measured milliseconds; None where the workspace does not know them."""

    first: float | None
    """Time of the first stage for one query."""
    single: float | None
    """Time of one inference of the first reranker."""
    pair: float | None
    """Time of one inference of the second reranker."""

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


def costs_of(finished: Finished, query_set: str, stages: Stages) -> MeasuredCosts:
    """The measured costs of a duoBERT stage over a monoBERT stage.

    The time of a pair is taken from the first aggregation that was run. It is derived from the time
    of all pairs, though that aggregation may need fewer, as sample does.
    """
    facts = finished.summary["systems"][query_set]
    num_queries = len(finished.queries(query_set))
    first, mono = facts[stages.mono.run], facts[stages.duo.run]
    more = (mono.get("inferences") or 0) - (first.get("inferences") or 0)
    pair = None
    aggregated = next((n for n in aggregates_of(finished, stages.name) if n in facts), None)
    if aggregated is not None:
        num_pairs = num_lines(finished.stored(of_stage(stages.name, query_set)))
        pair = _each(mono, facts[aggregated], num_queries, num_pairs)
    return MeasuredCosts(first.get("ms_per_query"), _each(first, mono, num_queries, more), pair)


def _each(
    below: Mapping[str, float], above: Mapping[str, float], num_queries: int, more: int
) -> float | None:
    """Milliseconds of each of the inferences that one system has more than the one below it."""
    times = below.get("ms_per_query"), above.get("ms_per_query")
    if times[0] is None or times[1] is None or more <= 0:
        return None
    return (times[1] - times[0]) * num_queries / more
