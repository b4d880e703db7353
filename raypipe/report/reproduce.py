"""Values that the finished steps of a reproduction measured, beside the published ones."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from raypipe.config.phases import PhasedTraining
from raypipe.config.recipe import Recipe
from raypipe.driver.summaries import read_results
from raypipe.errors import IncompleteError
from raypipe.markdown import Table, Value
from raypipe.report.finished import about, open_finished
from raypipe.report.page import TWINS, ReportSection, write_with_twins
from raypipe.report.published import (
    TIME,
    MeasuredRows,
    Planned,
    PrintedTable,
    PublishedSource,
    PublishedValue,
    Reproduction,
    cells,
    sources,
)
from raypipe.training.checkpoints import best_of, measured_sets
from raypipe.vocabulary import units

Found = dict[tuple[str, str | None, str, str], float]


def outcome(
    of: Reproduction, planned: Sequence[Planned], settings: Sequence[str] = ()
) -> ReportSection:
    """The reproduction's section, from the results of its steps.

    Args:
        of: the reproduction.
        planned: the steps that were run to completion.
        settings: what the user changed, which a note tells.

    Raises:
        IncompleteError: no complete results of a step stand.
    """
    ours: Found = {}
    notes = []
    for each in planned:
        results = read_results(each.folder)
        if results is None or results.get("status") != "complete":
            raise IncompleteError(
                f"{each.folder}: no complete results stand; run the same command again"
            )
        if isinstance(each.recipe, Recipe):
            ours |= _of_pipeline(each, results)
            notes += _notes(each, results)
        elif isinstance(each.recipe, PhasedTraining):
            ours |= _of_phases(each, each.recipe, results)
    changed = [each for each in settings if not each.split(":")[-1].startswith("resources.")]
    if changed:
        notes.append(
            f"changed by the command: {', '.join(changed)}; a value of what this changes says "
            "nothing of the paper's"
        )
    ran = {each.step.called for each in planned}
    return section_of(of, ours, ran, notes)


def write(section: ReportSection, out: Path) -> list[Path]:
    """The section as OUT/analysis/reproduce.NAME.json and as a page, OUT/reproduce.NAME.html."""
    name = f"reproduce.{section.query_set}"
    title = f"raypipe reproduce {section.query_set}"
    twins = {f"{name}.json": section.to_json()}
    path = write_with_twins(out, f"{name}.html", title, [section], twins)
    return [out / TWINS / f"{name}.json", path]


def _of_pipeline(planned: Planned, summary: Mapping[str, Any]) -> Found:
    name = planned.step.called
    values: Found = {
        (name, query_set, system, measure): value
        for query_set, of_set in summary["measures"].items()
        for system, of_system in of_set.items()
        for measure, value in of_system.items()
    }
    for query_set, of_set in summary["systems"].items():
        for system, facts in of_set.items():
            if facts["ms_per_query"] is not None:
                values[name, query_set, system, TIME] = facts["ms_per_query"]
    return values


def _of_phases(planned: Planned, recipe: PhasedTraining, summary: Mapping[str, Any]) -> Found:
    """The measures of each phase's chosen checkpoint, as the system PHASE/DEV SET."""
    values: Found = {}
    for phase in recipe.phases:
        validate, history = phase.training.validate_, summary["phases"][phase.name]["history"]
        best = best_of(history, None if validate is None else validate.measure)
        if validate is None or best is None:
            continue
        for name, value in zip(measured_sets(phase.training), best["values"], strict=True):
            values[planned.step.called, None, f"{phase.name}/{name}", validate.measure] = value
    return values


def _notes(planned: Planned, summary: Mapping[str, Any]) -> list[str]:
    """Topics, grades and what the start weights saw, of one step."""
    finished = open_finished(planned.folder)
    about_sets: dict[str, None] = {}
    for query_set in summary["measures"]:
        for unit in units():
            if finished.judgements(query_set, unit) is not None:
                for line in about(finished, query_set, unit):
                    named = f"{query_set}: {line}" if line.endswith(" topics") else line
                    about_sets[f"{planned.step.called}: {named}"] = None
    notes = [*about_sets]
    saw = {
        system["model"]: system["start_weights"]
        for of_set in summary["systems"].values()
        for system in of_set.values()
        if system.get("start_weights")
    }
    notes += [
        f"{planned.step.called}: {model}: its start weights saw {w}" for model, w in saw.items()
    ]
    return notes


Verdict = Literal[
    "pass",
    "fail",
    "board only",
    "as published",
    "not printed",
    "no figure",
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
class ResultLine:
    """A published value with ours."""

    cell: PublishedValue
    verdict: Verdict
    ours: float | None = None
    compared: MeasuredRows | None = None
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
            None if ours is None or self.cell.value is None else ours - self.cell.value,
            of.within if of is not None and judged else None,
            self.verdict,
            None if of is None else of.how,
            self.cell.where,
        ]


def lines_of(
    of: Reproduction, shown: PrintedTable, ours: Measured, ran: Collection[str]
) -> list[ResultLine]:
    """The lines of one table, in its order; `ran` names the steps that were run.

    A difference of exactly the tolerance passes. Both sides are taken as they are: nothing is
    rounded to the digits that the source prints.
    """
    lines = []
    for cell in cells(shown.source, shown.table, shown.collection):
        line = _line(of, shown, cell, ours, ran)
        if shown.others or any(cell.row in each.systems for each in _of_table(of.compared, shown)):
            lines.append(line)
    return lines


def _line(
    of: Reproduction,
    shown: PrintedTable,
    cell: PublishedValue,
    ours: Measured,
    ran: Collection[str],
) -> ResultLine:
    if cell.about.board_only:
        return ResultLine(cell, "board only")
    for each in _of_table(of.compared, shown):
        system = each.systems.get(cell.row, {}).get(cell.column)
        if system is None:
            continue
        measure = each.measures.get(cell.column, cell.about.measure)
        value = ours.get((each.step, each.queries, system, measure))
        if cell.about.measure == TIME:
            return ResultLine(cell, "not compared", value, each)
        if value is None:
            return ResultLine(cell, "not measured" if each.step in ran else "not run", None, each)
        if cell.value is None:
            return ResultLine(cell, "no figure", value, each)
        if cell.is_inferred:
            return ResultLine(cell, "not printed", value, each)
        passed = abs(value - cell.value) <= each.within + _SLACK
        return ResultLine(cell, "pass" if passed else "fail", value, each)
    return ResultLine(cell, "not compared" if cell.about.measure == TIME else "as published")


def _of_table(compared: Iterable[MeasuredRows], shown: PrintedTable) -> list[MeasuredRows]:
    return [e for e in compared if (e.source, e.table) == (shown.source, shown.table)]


def section_of(
    of: Reproduction,
    ours: Measured,
    ran: Collection[str],
    notes: Sequence[str] = (),
) -> ReportSection:
    """The page's section: a table for each published one, and what holds.

    Args:
        of: what was reproduced.
        ours: our values.
        ran: the names of the steps that were run.
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
    verdicts = ", ".join(f"{n} {verdict}" for verdict, n in counts.items() if n)
    whys = {
        f"tolerance {each.within} ({each.how}; {_named(each)}): {each.why}": None
        for each in of.compared
    }
    explained = [*whys, *_EXPLAINED, *of.notes, *notes]
    cited = [f"{s.source}: {s.title}, {s.url}" for s in _cited(of)]
    tables.append(Table("Results", ["result", "values"], [[*each] for each in counts.items()]))
    lead = f"{passed} of {judged} compared values are within their tolerance ({verdicts})"
    notes = [of.about, *explained, *cited]
    return ReportSection("reproduce", of.name, tables, (), notes, lead=lead)


_EXPLAINED = (
    "board only: the judgements are the leaderboard's; `raypipe leaderboard pack` makes the files",
    "as published: no step measures this row",
    "no figure: one was looked for and not found",
    "not run: the step was left out with --only",
    "not measured: the step was run, but has no such value; a setting changed what it measures",
    "not compared: times are of other machines",
)


def failures(section: ReportSection) -> list[str]:
    """The values outside of their tolerance, a line each."""
    return [
        f"{row[0]} ({row[1]}), {title}: ours {row[3]:.4f}, published {row[4]}"
        for title, row in _rows(section, "fail")
    ]


def unmeasured(section: ReportSection) -> list[str]:
    """The values that a step should have and has not, a line each."""
    return [f"{row[0]} ({row[1]}), {title}" for title, row in _rows(section, "not measured")]


def _rows(section: ReportSection, verdict: Verdict) -> list[tuple[str, Sequence[Value]]]:
    """(title, row) of each row with this result."""
    place = COLUMNS.index("result")
    return [
        (table.title, row)
        for table in section.tables
        if tuple(table.columns) == COLUMNS
        for row in table.rows
        if row[place] == verdict
    ]


def _named(compared: MeasuredRows) -> str:
    source = sources()[compared.source].source
    return f"{source}, {compared.table}: {', '.join(compared.systems)}"


def _cited(of: Reproduction) -> list[PublishedSource]:
    return [sources()[name] for name in dict.fromkeys(each.source for each in of.tables)]
