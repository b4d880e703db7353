"""Our values beside published ones: what passes, what fails and what cannot be compared."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from raypipe.analysis.figure_settings import settings_table
from raypipe.analysis.published import TIME, Cell, Source, cells, sources
from raypipe.analysis.reproductions import Compared, Reproduction, Shown
from raypipe.analysis.section import Section, Table, Value

Verdict = Literal[
    "pass",
    "fail",
    "board only",
    "as published",
    "not printed",
    "not compared",
    "not run",
    "not measured",
]
Measured = Mapping[tuple[str, str | None, str, str], float]
"""(step, query set, system, measure) -> our value, of the steps that were run."""
COLUMNS = (
    "row", "column", "measure", "ours", "published", "difference", "tolerance", "result",
    "ours is", "source",
)  # fmt: skip
_SLACK = 1e-9
"""0.304 - 0.303 is a little more than 0.001 in binary."""


@dataclass(frozen=True, slots=True)
class Line:
    """A published value with ours."""

    cell: Cell
    verdict: Verdict
    ours: float | None = None
    compared: Compared | None = None
    """How ours comes about; None if no step measures the cell."""

    def row(self) -> list[Value]:
        """The values of COLUMNS."""
        of, ours = self.compared, self.ours
        judged = self.verdict in ("pass", "fail")
        return [
            self.cell.row,
            self.cell.column,
            self.cell.about.measure,
            ours,
            self.cell.value,
            None if ours is None else ours - self.cell.value,
            of.within if of is not None and judged else None,
            self.verdict,
            None if of is None else of.how,
            self.cell.where,
        ]


def lines_of(of: Reproduction, shown: Shown, ours: Measured, ran: Collection[str]) -> list[Line]:
    """The lines of one table, in its order; `ran` names the steps that were run.

    A difference of exactly the tolerance passes. Both sides are taken as they are: nothing is
    rounded to the digits that the source prints.
    """
    found = []
    for cell in cells(shown.source, shown.table, shown.collection):
        line = _line(of, shown, cell, ours, ran)
        if shown.others or any(cell.row in each.systems for each in _of_table(of.compared, shown)):
            found.append(line)
    return found


def _line(of: Reproduction, shown: Shown, cell: Cell, ours: Measured, ran: Collection[str]) -> Line:
    if cell.about.board_only:
        return Line(cell, "board only")
    for each in _of_table(of.compared, shown):
        system = each.systems.get(cell.row, {}).get(cell.column)
        if system is None:
            continue
        measure = each.measures.get(cell.column, cell.about.measure)
        value = ours.get((each.step, each.queries, system, measure))
        if cell.about.measure == TIME:
            return Line(cell, "not compared", value, each)
        if value is None:
            return Line(cell, "not measured" if each.step in ran else "not run", None, each)
        if cell.is_inferred:
            return Line(cell, "not printed", value, each)
        passed = abs(value - cell.value) <= each.within + _SLACK
        return Line(cell, "pass" if passed else "fail", value, each)
    return Line(cell, "not compared" if cell.about.measure == TIME else "as published")


def _of_table(compared: Iterable[Compared], shown: Shown) -> list[Compared]:
    return [e for e in compared if (e.source, e.table) == (shown.source, shown.table)]


def section_of(
    of: Reproduction,
    ours: Measured,
    ran: Collection[str],
    here: Mapping[str, Sequence[int]],
    notes: Sequence[str] = (),
) -> Section:
    """The page's section: a table for each published one, the settings of figures, what holds.

    Args:
        of: what was reproduced.
        ours: our values.
        ran: the names of the steps that were run.
        here: setting -> the values that the analyses have of it in the step that was run.
        notes: more notes, such as settings that the user changed.
    """
    by_table = {(each.source, each.table): lines_of(of, each, ours, ran) for each in of.tables}
    tables = []
    for (source, table), lines in by_table.items():
        title = f"{sources()[source].source}, {table}"
        tables.append(Table(title, COLUMNS, [line.row() for line in lines]))
    lines = [line for found in by_table.values() for line in found]
    counts = {
        verdict: sum(line.verdict == verdict for line in lines) for verdict in get_args(Verdict)
    }
    judged, passed = counts["pass"] + counts["fail"], counts["pass"]
    told = ", ".join(f"{n} {verdict}" for verdict, n in counts.items() if n)
    whys = {
        f"tolerance {each.within} ({each.how}; {_named(each)}): {each.why}": None
        for each in of.compared
    }
    explained = [*whys, *_EXPLAINED, *of.notes, *notes]
    cited = [f"{s.source}: {s.title}, {s.url}" for s in _cited(of)]
    tables.append(Table("Results", ["result", "values"], [[*each] for each in counts.items()]))
    if of.settings:
        tables.append(settings_table(of, here))
    lead = f"{passed} of {judged} compared values are within their tolerance ({told})"
    notes = [of.about, *explained, *cited]
    return Section("reproduce", of.name, tables, (), notes, lead=lead)


_EXPLAINED = (
    "board only: the judgements are the leaderboard's; `raypipe leaderboard pack` makes the files",
    "as published: no step measures this row",
    "not run: the step was left out with --only",
    "not measured: the step was run, but has no such value; a setting changed what it measures",
    "not compared: times are of other machines",
)


def failures(section: Section) -> list[str]:
    """The values outside of their tolerance, a line each."""
    return [
        f"{row[0]} ({row[1]}), {title}: ours {row[3]:.4f}, published {row[4]}"
        for title, row in _rows(section, "fail")
    ]


def unmeasured(section: Section) -> list[str]:
    """The values that a step should have and has not, a line each."""
    return [f"{row[0]} ({row[1]}), {title}" for title, row in _rows(section, "not measured")]


def _rows(section: Section, verdict: Verdict) -> list[tuple[str, Sequence[Value]]]:
    """(title, row) of each row with this result."""
    place = COLUMNS.index("result")
    return [
        (table.title, row)
        for table in section.tables
        if tuple(table.columns) == COLUMNS
        for row in table.rows
        if row[place] == verdict
    ]


def _named(compared: Compared) -> str:
    source = sources()[compared.source].source
    return f"{source}, {compared.table}: {', '.join(compared.systems)}"


def _cited(of: Reproduction) -> list[Source]:
    return [sources()[name] for name in dict.fromkeys(each.source for each in of.tables)]
