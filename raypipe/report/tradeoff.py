"""The analysis `tradeoff` of a finished workspace: its grid, and a cell chosen on one query set."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from raypipe.errors import InputError
from raypipe.evaluation.significance import difference, randomisation_tests
from raypipe.markdown import Table, Value
from raypipe.report.cells import (
    NUM_SEEDS,
    Cell,
    Computed,
    GridCells,
    MeasuredCosts,
    Scores,
    Setting,
    Stages,
    aggregates_of,
    cells_of,
    cheapest,
    costs_of,
    k0s_of,
    stages_of,
)
from raypipe.report.charts import Chart
from raypipe.report.finished import Finished, about, comparable, measures_of
from raypipe.report.page import ReportSection

SETTING = ("k0", "k1", "method", "m")
MORE_PAIRS = "a larger k1 in the recipe scores more pairs"
COSTS = ("inferences, paper", "inferences, needed", "ms/query, derived")


def tradeoff(finished: Finished, query_set: str, *, loss: float = 0.005) -> list[ReportSection]:
    """Quality against inferences and time, a section for each duoBERT stage over a monoBERT stage.

    Cells that need pairs that were not scored are left out, and a note has their number. Another
    names the cheapest cell within `loss` of the best, which is to be reported on other queries.
    """
    sections = []
    for stages in stages_of(finished, query_set):
        grid = cells_of(finished, query_set, stages)
        costs = costs_of(finished, query_set, stages)
        measures = measures_of(finished)
        notes = about(finished, query_set) + _notes(grid, measures[0], loss)
        table = _table(stages.name, grid.cells, costs, measures)
        chart = _chart(grid.cells, measures[0])
        name = f"tradeoff of {stages.name}"
        sections.append(ReportSection(name, query_set, [table], [chart], notes))
    return sections


def _table(
    name: str, cells: Sequence[Cell], costs: MeasuredCosts, measures: Sequence[str]
) -> Table:
    columns = [*SETTING, *COSTS, *measures, f"spread of {measures[0]}"]
    rows: list[list[Value]] = []
    for cell in cells:
        setting, needed = cell.setting, cell.needed
        row: list[Value] = [setting.k0, setting.k1, setting.method or "-", setting.m]
        row += [setting.on_paper, int(needed) if needed.is_integer() else needed, costs.of(cell)]
        rows.append([*row, *(cell.means[measure] for measure in measures), cell.spread])
    return Table(f"The grid of {name}", columns, rows)


def _notes(grid: GridCells, measure: str, loss: float) -> list[str]:
    notes = [
        "inferences a query: on the papers' axes k0 + k1 (k1 - 1), with k1 (m - 1) for sample; "
        "needed: what these queries' lists ask for, k0 + k1 min(m, k1 - 1) if they are long enough",
        "ms/query is derived from the measured time of an inference of each reranker, not measured",
        f"sample: the mean of {NUM_SEEDS} draws and its standard deviation over them",
    ]
    num_absent = grid.num_cells - len(grid.cells)
    if num_absent:
        notes.append(
            f"{num_absent} of {grid.num_cells} cells need pairs that were not scored, and are "
            f"left out; {MORE_PAIRS}"
        )
    best = cheapest(grid.cells, measure, loss)
    if best is not None:
        words = _told("cheapest", best, measure)
        notes.append(
            f"{words}, within {loss} of the best {measure}; it was chosen on these queries, so "
            "report it on others"
        )
    return notes


def _chart(cells: Sequence[Cell], measure: str) -> Chart:
    lines: dict[str, list[tuple[float, float]]] = {}
    for cell in cells:
        setting = cell.setting
        label = f"k0 {setting.k0} {setting.method}".strip()
        label += f" m {setting.m}" if setting.m is not None else ""
        lines.setdefault(label, []).append((setting.on_paper, cell.means[measure]))
    title = f"{measure} by inferences"
    return Chart(title, "inferences a query", measure, lines, log_x=True)


@dataclass(frozen=True)
class ChosenCell:
    """A setting with its part in the table; a system of the recipe has a draw's seed too."""

    part: str
    setting: Setting
    system: str | None = None
    seed: int = 0


def chosen(
    finished: Finished, choose_on: str, query_sets: Sequence[str], *, loss: float = 0.005
) -> list[ReportSection]:
    """A section for each duoBERT stage and query set, on the cells that `choose_on` prefers.

    They are the cheapest cell within `loss` of the best one, the best one, and the recipe's own.
    Differences are paired by query, to the best cell of `choose_on`.

    Raises:
        InputError: `choose_on` is no query set with judgements, or is among `query_sets`, or there
            are none of these.
    """
    check_choice(finished, choose_on, query_sets)
    sections = []
    for stages in stages_of(finished, choose_on):
        measure = _measure(finished)
        cells = cells_of(finished, choose_on, stages).cells
        near = cheapest(cells, measure, loss)
        best = cheapest(cells, measure, 0.0)
        if near is None or best is None:
            continue
        named = [ChosenCell("cheapest", near.setting), ChosenCell("best", best.setting)]
        words = [_told(part, cell, measure) for part, cell in (("cheapest", near), ("best", best))]
        for query_set in query_sets:
            own = _own(finished, query_set, stages)
            table, notes = _chosen_table(finished, query_set, stages, [*named, *own], measure)
            notes = [
                *about(finished, query_set),
                f"chosen on {choose_on}, by {measure}: {words[0]}, within {loss} of {words[1]}",
                "differences to the best cell there, paired by query: 95% intervals and the p of "
                "the paired randomisation test",
                "ms/query is derived from the measured time of an inference of each reranker",
                *notes,
            ]
            name = f"tradeoff of {stages.name} chosen on {choose_on}"
            sections.append(ReportSection(name, query_set, [table], (), notes))
    return sections


def check_choice(finished: Finished, choose_on: str, query_sets: Sequence[str]) -> None:
    """Refuse what `chosen` cannot show."""
    judged = [name for name in finished.query_sets if finished.measured(name)]
    if choose_on not in judged:
        raise InputError(
            f"--choose-on {choose_on}: expected a query set with judgements of passages, one of "
            f"{', '.join(judged)}"
        )
    if choose_on in query_sets:
        raise InputError(
            f"--choose-on {choose_on}: what is chosen on a query set is not shown on the same one; "
            "name another one with --queries"
        )
    if not query_sets:
        raise InputError(
            f"--choose-on {choose_on}: expected another query set with judgements to show the cell "
            "on, found none; add one to the recipe"
        )


def _measure(finished: Finished) -> str:
    """The recipe's first measure that has a mean."""
    measures = measures_of(finished)
    with_means = comparable(measures)
    if not with_means:
        raise InputError(
            f"{finished.workspace.folder / 'recipe.yaml'}: expected a measure with a mean, found "
            f"only counts ({', '.join(measures)})"
        )
    return with_means[0]


def _own(finished: Finished, query_set: str, stages: Stages) -> Iterator[ChosenCell]:
    """The cells of the recipe's own systems."""
    k0 = k0s_of(stages.mono, finished.run(stages.mono.run, query_set))[-1]
    ran = finished.systems(query_set)
    for name, stage in aggregates_of(finished, stages.name).items():
        if name not in ran:
            continue
        k1 = stages.duo.k1 if stage.k1 is None else stage.k1
        yield ChosenCell(
            f"recipe: {name}", Setting(k0, k1, stage.method, stage.m), name, stage.seed
        )


def _chosen_table(
    finished: Finished, query_set: str, stages: Stages, named: Sequence[ChosenCell], measure: str
) -> tuple[Table, list[str]]:
    """The cells on one query set, and what to know of them."""
    scores = Scores(finished, query_set, stages)
    costs = costs_of(finished, query_set, stages)
    by_part = {
        each.part: scores.cell(each.setting)
        if each.system is None
        else scores.own(each.system, each.setting, each.seed)
        for each in named
    }
    base = by_part["best"]
    rows: list[list[Value]] = []
    notes = []
    for each in named:
        setting, computed = each.setting, by_part[each.part]
        row: list[Value] = [each.part, setting.k0, setting.k1, setting.method or "-", setting.m]
        if computed is None:
            notes.append(f"{each.part}: pairs that it needs here were not scored; {MORE_PAIRS}")
            rows.append([*row, *[None] * (5 + len(COSTS))])
            continue
        cell = computed.cell
        row += [cell.means[measure], *_compared(computed, base, measure)]
        rows.append([*row, setting.on_paper, cell.needed, costs.of(cell)])
    columns = ["cell", *SETTING, measure, "difference", "low", "high", "p", *COSTS]
    return Table(f"Cells of {stages.name} on {query_set}", columns, rows), notes


def _compared(computed: Computed, base: Computed | None, measure: str) -> list[Value]:
    """Difference to the best cell, low, high and p; nothing for that cell itself."""
    if base is None or computed is base:
        return [None] * 4
    values, others = computed.per_query[measure], base.per_query[measure]
    delta = difference(values, others)
    deltas = np.array([values[query] - others[query] for query in others])
    return [delta.mean, delta.low, delta.high, randomisation_tests([deltas])[0]]


def _told(part: str, cell: Cell, measure: str) -> str:
    setting = cell.setting
    how = f"k1 {setting.k1} {setting.method}" if setting.k1 else "no second reranker"
    how += f" m {setting.m}" if setting.m is not None else ""
    value, needed = cell.means[measure], cell.needed
    return f"the {part} cell, k0 {setting.k0}, {how}: {value:.4f}, {needed:,.0f} inferences"
