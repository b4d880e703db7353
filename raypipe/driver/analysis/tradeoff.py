"""The analysis `tradeoff` of a finished workspace; see `raypipe.analysis.tradeoff`."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from raypipe.analysis.depth import depths_up_to, longest, reranked_at
from raypipe.analysis.section import Chart, Section, Table, Value
from raypipe.analysis.tradeoff import (
    K0S,
    K1S,
    NUM_SEEDS,
    Setting,
    cell_run,
    cheapest,
    lacking,
    settings,
)
from raypipe.config.pipeline.kinds import Aggregate, DuoScore, MonoScore
from raypipe.driver.analysis.finished import Finished
from raypipe.driver.analysis.measuring import about, means, measures_of
from raypipe.errors import InputError
from raypipe.ranking.candidates import Keys
from raypipe.stages.scoring.candidates import keys_of


@dataclass(frozen=True, slots=True)
class _Cell:
    setting: Setting
    means: Mapping[str, float]
    """Measure -> mean over the topics; for SAMPLE the mean over its draws."""
    spread: float | None
    """Standard deviation of the first measure over the draws of SAMPLE."""


@dataclass(frozen=True, slots=True)
class _Costs:
    """Measured milliseconds; None where the workspace does not know them."""

    first: float | None
    """Of the first stage, a query."""
    single: float | None
    """Of an inference of the first reranker."""
    pair: float | None
    """Of an inference of the second."""

    def of(self, setting: Setting) -> float | None:
        """Derived milliseconds a query."""
        if self.first is None or self.single is None or (setting.k1 and self.pair is None):
            return None
        return (
            self.first
            + setting.k0 * self.single
            + (setting.needed - setting.k0) * (self.pair or 0.0)
        )


def tradeoff(finished: Finished, query_set: str, *, loss: float = 0.005) -> list[Section]:
    """For each second reranker of the recipe, quality against inferences and time.

    A cell that needs pairs that were not scored is left out; their number is told. The cheapest
    cell within `loss` of the best is named: what is chosen here is to be reported on other queries.

    Raises:
        InputError: no duoBERT stage over a monoBERT stage.
    """
    found = [
        _of_stage(finished, query_set, name, stage, mono, loss)
        for name, stage in finished.recipe.stages.items()
        if isinstance(stage, DuoScore)
        and isinstance(mono := finished.recipe.stages[stage.run], MonoScore)
    ]
    if not found:
        raise InputError(
            f"{finished.workspace.folder}: expected a duoBERT stage (score with k1) over a "
            "monoBERT stage (score with k0), found none"
        )
    return found


def _of_stage(
    finished: Finished, query_set: str, name: str, duo: DuoScore, mono: MonoScore, loss: float
) -> Section:
    first = finished.run(mono.run, query_set)
    scored = finished.run(duo.run, query_set)
    pairs = finished.pairs(name, query_set)
    held, probabilities = keys_of(pairs), pairs["score"].to_numpy()
    k0s = depths_up_to(min(mono.k0, longest(first)), K0S)
    grid = settings(k0s, depths_up_to(min(duo.k1, longest(scored)), K1S))
    runs = {
        k0: reranked_at(first, scored, scored_by=duo.run, depth=k0, tail=mono.tail) for k0 in k0s
    }
    tail = next((stage.tail for stage in _aggregates(finished, name).values()), "keep")
    cells: list[_Cell] = []
    absent: list[Keys] = []
    for setting in grid:
        run, seeds = runs[setting.k0], range(NUM_SEEDS if setting.m is not None else 1)
        gaps = [lacking(run, setting, seed, held) for seed in seeds] if setting.k1 else []
        if any(len(gap[0]) for gap in gaps):
            absent += gaps
            continue
        made = (
            [cell_run(run, setting, seed, held, probabilities, tail=tail) for seed in seeds]
            if setting.k1
            else [run]
        )
        cells.append(_measured(finished, query_set, setting, made))
    return _section(finished, query_set, name, cells, absent, len(grid), loss)


def _measured(finished: Finished, query_set: str, setting: Setting, runs: list[pa.Table]) -> _Cell:
    measures = measures_of(finished)
    values = [means(finished, query_set, run, measures) for run in runs]
    of_all = {m: float(np.mean([value[m] for value in values])) for m in measures}
    spread = float(np.std([v[measures[0]] for v in values], ddof=1)) if len(values) > 1 else None
    return _Cell(setting, of_all, spread)


def _section(
    finished: Finished,
    query_set: str,
    name: str,
    cells: list[_Cell],
    absent: list[Keys],
    num_cells: int,
    loss: float,
) -> Section:
    measures, costs = measures_of(finished), _costs(finished, query_set, name)
    rows: list[list[Value]] = [
        [
            c.setting.k0,
            c.setting.k1,
            c.setting.method or "-",
            c.setting.m,
            c.setting.on_paper,
            c.setting.needed,
            costs.of(c.setting),
            *(c.means[measure] for measure in measures),
            c.spread,
        ]
        for c in cells
    ]
    columns = ["k0", "k1", "method", "m", "inferences, paper", "inferences, needed"]
    columns += ["ms/query, derived", *measures, f"spread of {measures[0]}"]
    notes = about(finished, query_set)
    notes.append(
        "inferences a query: on the papers' axes k0 + k1 (k1 - 1), with k1 (m - 1) for sample; "
        "needed: k0 + k1 min(m, k1 - 1)"
    )
    notes.append(
        "ms/query is derived from the measured time of an inference of each reranker, not measured"
    )
    notes.append(f"sample: the mean of {NUM_SEEDS} draws and its standard deviation over them")
    if absent:
        num = len({key for gap in absent for key in zip(*(c.tolist() for c in gap), strict=True)})
        cost = f", {num * costs.pair / 1000:,.0f} s by the measured time" if costs.pair else ""
        notes.append(
            f"{num_cells - len(cells)} of {num_cells} cells need pairs that were not scored, "
            f"{num:,} in all{cost}; they are left out"
        )
    best = cheapest([(c.setting, c.means[measures[0]]) for c in cells], loss)
    if best is not None:
        setting, value = best
        how = f"k1 {setting.k1} {setting.method}" if setting.k1 else "no second reranker"
        notes.append(
            f"the cheapest cell within {loss} of the best {measures[0]}: k0 {setting.k0}, {how}, "
            f"{value:.4f}, {setting.needed:,} inferences; it was chosen on these queries, so "
            "report it on others"
        )
    lines: dict[str, list[tuple[float, float]]] = {}
    for c in cells:
        label = f"k0 {c.setting.k0} {c.setting.method}".strip()
        label += f" m {c.setting.m}" if c.setting.m is not None else ""
        lines.setdefault(label, []).append((c.setting.on_paper, c.means[measures[0]]))
    chart = Chart(f"{measures[0]} by inferences", "inferences a query", measures[0], lines, True)
    table = Table(f"The grid of {name}", columns, rows)
    return Section(f"tradeoff of {name}", query_set, [table], [chart], notes)


def _costs(finished: Finished, query_set: str, name: str) -> _Costs:
    stages, told = finished.recipe.stages, finished.summary["systems"][query_set]
    duo = stages[name]
    assert isinstance(duo, DuoScore)
    mono = stages[duo.run]
    assert isinstance(mono, MonoScore)
    num_queries = len(finished.queries(query_set))
    first = told[mono.run].get("ms_per_query")
    single = _each(told[mono.run], told[duo.run], num_queries)
    of_pairs = [*_aggregates(finished, name)]
    pair = _each(told[duo.run], told[of_pairs[0]], num_queries) if of_pairs else None
    return _Costs(first, single, pair)


def _aggregates(finished: Finished, pairs: str) -> dict[str, Aggregate]:
    """The stages that make runs of a duoBERT stage's pairs; the first one's tail is the grid's."""
    stages = finished.recipe.stages.items()
    return {n: s for n, s in stages if isinstance(s, Aggregate) and s.pairs == pairs}


def _each(below: Mapping[str, float], above: Mapping[str, float], num_queries: int) -> float | None:
    """Milliseconds of one inference that one system has more than the one below it."""
    times = below.get("ms_per_query"), above.get("ms_per_query")
    more = (above.get("inferences") or 0) - (below.get("inferences") or 0)
    if times[0] is None or times[1] is None or more <= 0:
        return None
    return (times[1] - times[0]) * num_queries / more
