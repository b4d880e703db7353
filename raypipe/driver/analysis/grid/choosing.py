"""A cell chosen on one query set, shown on the others."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from raypipe.analysis.section import Section, Table, Value
from raypipe.analysis.tradeoff import Cell, Setting, cheapest
from raypipe.driver.analysis.finished import Finished
from raypipe.driver.analysis.grid.cells import Computed, Scores, cells_of
from raypipe.driver.analysis.grid.costs import aggregates_of, costs_of
from raypipe.driver.analysis.grid.filled import Stages, k0s_of, stages_of
from raypipe.driver.analysis.measuring import about, measures_of
from raypipe.errors import InputError
from raypipe.evaluation.difference import difference
from raypipe.evaluation.names import counts_in
from raypipe.evaluation.paired import randomisation_tests

COLUMNS = ("cell", "k0", "k1", "method", "m")
COSTS = ("inferences, paper", "inferences, needed", "ms/query, derived")


@dataclass(frozen=True)
class Named:
    """A setting with its part in the table; a system of the recipe has a draw's seed too."""

    part: str
    setting: Setting
    system: str | None = None
    seed: int = 0


def chosen(
    finished: Finished, choose_on: str, query_sets: Sequence[str], *, loss: float = 0.005
) -> list[Section]:
    """For each duoBERT stage the cells that one query set prefers, on each of the others.

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
        named = [Named("cheapest", near.setting), Named("best", best.setting)]
        told = [_told(part, cell, measure) for part, cell in (("cheapest", near), ("best", best))]
        for query_set in query_sets:
            own = _own(finished, query_set, stages)
            table, notes = _table(finished, query_set, stages, [*named, *own], measure)
            notes = [
                *about(finished, query_set),
                f"chosen on {choose_on}, by {measure}: {told[0]}, within {loss} of {told[1]}",
                "differences to the best cell there, paired by query: 95% intervals and the p of "
                "the paired randomisation test",
                "ms/query is derived from the measured time of an inference of each reranker",
                *notes,
            ]
            name = f"tradeoff of {stages.name} chosen on {choose_on}"
            sections.append(Section(name, query_set, [table], (), notes))
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
    counts = counts_in(measures)
    comparable = [measure for measure in measures if measure not in counts]
    if not comparable:
        raise InputError(
            f"{finished.workspace.folder / 'recipe.yaml'}: expected a measure with a mean, found "
            f"only counts ({', '.join(counts)})"
        )
    return comparable[0]


def _own(finished: Finished, query_set: str, stages: Stages) -> Iterator[Named]:
    """The cells of the recipe's own systems."""
    k0 = k0s_of(stages.mono, finished.run(stages.mono.run, query_set))[-1]
    ran = finished.systems(query_set)
    for name, stage in aggregates_of(finished, stages.name).items():
        if name not in ran:
            continue
        k1 = stages.duo.k1 if stage.k1 is None else stage.k1
        yield Named(f"recipe: {name}", Setting(k0, k1, stage.method, stage.m), name, stage.seed)


def _table(
    finished: Finished, query_set: str, stages: Stages, named: Sequence[Named], measure: str
) -> tuple[Table, list[str]]:
    """The cells on one query set, and what to know of them."""
    scores = Scores(finished, query_set, stages)
    costs = costs_of(finished, query_set, stages)
    found = {each.part: _computed(scores, each) for each in named}
    base = found["best"]
    rows: list[list[Value]] = []
    notes = []
    for each in named:
        setting, computed = each.setting, found[each.part]
        row: list[Value] = [each.part, setting.k0, setting.k1, setting.method or "-", setting.m]
        if computed is None:
            notes.append(f"{each.part}: pairs that it needs here were not scored; see --fill")
            rows.append([*row, *[None] * (5 + len(COSTS))])
            continue
        cell = computed.cell
        row += [cell.means[measure], *_compared(computed, base, measure)]
        rows.append([*row, setting.on_paper, cell.needed, costs.of(cell)])
    columns = [*COLUMNS, measure, "difference", "low", "high", "p", *COSTS]
    return Table(f"Cells of {stages.name} on {query_set}", columns, rows), notes


def _computed(scores: Scores, named: Named) -> Computed | None:
    """The cell; a system of the recipe as it was run."""
    if named.system is None:
        return scores.cell(named.setting)
    return scores.own(named.system, named.setting, named.seed)


def _compared(computed: Computed, base: Computed | None, measure: str) -> list[Value]:
    """Difference to the best cell, low, high and p; nothing for that cell itself."""
    if base is None or computed is base:
        return [None] * 4
    values, others = computed.per_query[measure], base.per_query[measure]
    found = difference(values, others)
    deltas = np.array([values[query] - others[query] for query in others])
    return [found.mean, found.low, found.high, randomisation_tests([deltas])[0]]


def _told(part: str, cell: Cell, measure: str) -> str:
    setting = cell.setting
    how = f"k1 {setting.k1} {setting.method}" if setting.k1 else "no second reranker"
    how += f" m {setting.m}" if setting.m is not None else ""
    value, needed = cell.means[measure], cell.needed
    return f"the {part} cell, k0 {setting.k0}, {how}: {value:.4f}, {needed:,.0f} inferences"
