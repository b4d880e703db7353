"""The analysis `tradeoff` of a finished workspace; see `raypipe.analysis.tradeoff`."""

from collections.abc import Sequence

from raypipe.analysis.section import Chart, Section, Table, Value
from raypipe.analysis.tradeoff import NUM_SEEDS, Cell, cheapest
from raypipe.driver.analysis.finished import Finished
from raypipe.driver.analysis.grid.cells import Found, cells_of
from raypipe.driver.analysis.grid.costs import Costs, costs_of
from raypipe.driver.analysis.grid.filled import stages_of
from raypipe.driver.analysis.measuring import about, measures_of


def tradeoff(finished: Finished, query_set: str, *, loss: float = 0.005) -> list[Section]:
    """For each duoBERT stage over a monoBERT stage, quality against inferences and time.

    A cell that needs pairs that were not scored is left out; their number is told. The cheapest
    cell within `loss` of the best is named: what is chosen here is to be reported on other queries.
    """
    sections = []
    for stages in stages_of(finished, query_set):
        found = cells_of(finished, query_set, stages)
        costs = costs_of(finished, query_set, stages)
        measures = measures_of(finished)
        notes = about(finished, query_set) + _notes(found, costs, measures[0], loss)
        table = _table(stages.name, found.cells, costs, measures)
        chart = _chart(found.cells, measures[0])
        name = f"tradeoff of {stages.name}"
        sections.append(Section(name, query_set, [table], [chart], notes))
    return sections


def _table(name: str, cells: Sequence[Cell], costs: Costs, measures: Sequence[str]) -> Table:
    columns = ["k0", "k1", "method", "m", "inferences, paper", "inferences, needed"]
    columns += ["ms/query, derived", *measures, f"spread of {measures[0]}"]
    rows: list[list[Value]] = []
    for cell in cells:
        setting, needed = cell.setting, cell.needed
        row: list[Value] = [setting.k0, setting.k1, setting.method or "-", setting.m]
        row += [setting.on_paper, int(needed) if needed.is_integer() else needed, costs.of(cell)]
        rows.append([*row, *(cell.means[measure] for measure in measures), cell.spread])
    return Table(f"The grid of {name}", columns, rows)


def _notes(found: Found, costs: Costs, measure: str, loss: float) -> list[str]:
    notes = [
        "inferences a query: on the papers' axes k0 + k1 (k1 - 1), with k1 (m - 1) for sample; "
        "needed: what these queries' lists ask for, k0 + k1 min(m, k1 - 1) if they are long enough",
        "ms/query is derived from the measured time of an inference of each reranker, not measured",
        f"sample: the mean of {NUM_SEEDS} draws and its standard deviation over them",
    ]
    if found.num_filled is not None:
        notes.append(f"{found.num_filled:,} pairs were scored for this grid alone, with --fill")
    if found.num_absent:
        num, cost = found.num_absent, ""
        if costs.pair is not None:
            cost = f", {num * costs.pair / 1000:,.0f} s as measured here"
        why = "they are left out; `analyse tradeoff --fill` scores the pairs"
        if found.num_filled is not None:
            why = "they are in quarantine, so these cells are left out"
        notes.append(
            f"{found.num_cells - len(found.cells)} of {found.num_cells} cells need pairs that were "
            f"not scored, {num:,} in all{cost}; {why}"
        )
    best = cheapest(found.cells, measure, loss)
    if best is not None:
        k1, method = best.setting.k1, best.setting.method
        how = f"k1 {k1} {method}" if k1 else "no second reranker"
        notes.append(
            f"the cheapest cell within {loss} of the best {measure}: k0 {best.setting.k0}, {how}, "
            f"{best.means[measure]:.4f}, {best.needed:,.0f} inferences; it was chosen on these "
            "queries, so report it on others"
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
