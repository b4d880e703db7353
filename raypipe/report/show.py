"""One query of a finished workspace: its candidates side by side in every system.

They are a table of a page, or text for a terminal: ranks in columns, texts cut to the width.
"""

import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, TypeAlias
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich import box
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from raypipe.errors import InputError
from raypipe.evaluation.compare import DEFAULT_CUTOFF, unjudged
from raypipe.evaluation.measures import evaluate, grades_of
from raypipe.evaluation.names import cutoffs_in
from raypipe.report.finished import Finished, RankedUnit, relevant_grade
from raypipe.report.page import TWINS, Section, Table, Value, plain, shown, write_with_twins
from raypipe.vocabulary import Unit, units

NUM_CANDIDATES = 10
NUM_NEAR = 3
NOT_JUDGED = "not judged"
LONGEST_NAME = 120
"""Characters of an id in a file's name; a longer one ends with its hash."""
_WORD = re.compile(r"\w+")


class QueryOfSet(NamedTuple):
    """A query of a set."""

    query_set: str
    row: int
    query_id: str
    text: str


def find_query(finished: Finished, query_id: str, query_set: str | None) -> list[QueryOfSet]:
    """The query in each query set that has its id, or in the one that is named.

    Raises:
        InputError: no such query set, or none with such a query; it names the nearest ids.
    """
    found, told, known = [], [], list[str]()
    for name in finished.chosen(query_set):
        table = finished.queries(name)
        ids = table["query_id"].to_pylist()
        if query_id in ids:
            row = ids.index(query_id)
            found.append(QueryOfSet(name, row, query_id, table["text"][row].as_py()))
        told.append(f"{name} ({len(ids):,} queries)")
        known += ids
    if not found:
        near = get_close_matches(query_id, known, n=NUM_NEAR)
        more = f"did you mean {_listed(near)}?" if near else f"expected such as {_listed(known)}"
        raise InputError(f"--query {query_id}: no such query in {' or '.join(told)}; {more}")
    return found


def _listed(ids: list[str]) -> str:
    return " or ".join(list(dict.fromkeys(ids))[:NUM_NEAR]) or "none: the query set is empty"


@dataclass(frozen=True, slots=True)
class PlaceInList:
    """Where a system has a candidate."""

    rank: int
    score: float
    """The true score, which a run file may have lowered."""
    scored_by: str
    """The stage that scored it: below a reranker's first k, the stage before it."""


Lists: TypeAlias = Mapping[str, Mapping[int, PlaceInList]]
"""System -> row of each of its candidates -> place."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One passage or document, and where the systems have it."""

    name: str
    """Its original id."""
    grade: int | None
    """None if it was not judged."""
    text: str
    shared: Sequence[str]
    """The query's words that it has too."""
    places: Mapping[str, PlaceInList]
    """System -> place; without the systems that do not have it."""


def chosen(lists: Lists, relevant: Mapping[int, int], num: int) -> list[int]:
    """The rows to show: every system's first `num`, and the `num` relevant ones of highest grade.

    They are in the order of the last system, then of the one before it, and so on. Relevant ones
    that no system has come last, higher grades first, then by row.

    Args:
        lists: see `Lists`.
        relevant: row -> grade.
        num: of each system.
    """
    first = {row for own in lists.values() for row, place in own.items() if place.rank <= num}
    missed = sorted(relevant.keys() - first, key=lambda row: (-relevant[row], row))[:num]
    last_first = [*lists.values()][::-1]

    def order(row: int) -> tuple[float, ...]:
        ranks = [own[row].rank if row in own else float("inf") for own in last_first]
        return (*ranks, -relevant.get(row, 0), row)

    return sorted([*first, *missed], key=order)


def shared_words(query: str, passage: str) -> list[str]:
    """The query's words that the passage has too, in lower case and each once, in their order."""
    there = set(_WORD.findall(passage.lower()))
    return [word for word in dict.fromkeys(_WORD.findall(query.lower())) if word in there]


def side_by_side(candidates: Sequence[Candidate], systems: Sequence[str], unit: str) -> Table:
    """A row for each candidate: id, grade, rank and true score in every system, words and text.

    Where a stage below scored some of a system's candidates, a column says which stage did.
    """
    below = {
        name
        for candidate in candidates
        for name, place in candidate.places.items()
        if place.scored_by != name
    }
    columns = [unit.removesuffix("s"), "grade"]
    for name in systems:
        columns += [name, f"{name} score", *([f"{name} scored by"] if name in below else [])]
    rows: list[list[Value]] = []
    for candidate in candidates:
        grade = NOT_JUDGED if candidate.grade is None else candidate.grade
        row: list[Value] = [candidate.name, grade]
        for name in systems:
            place = candidate.places.get(name)
            row += [None, None] if place is None else [place.rank, place.score]
            if name in below:
                row.append(None if place is None else place.scored_by)
        rows.append([*row, ", ".join(candidate.shared) or "none", candidate.text])
    title = f"The first {unit} of every system, and the relevant ones"
    return Table(title, [*columns, "shared words", "text"], rows)


@dataclass(frozen=True)
class QueryView:
    """A query in the systems that rank passages, or in those that rank documents."""

    query: QueryOfSet
    unit: Unit
    systems: Table
    """A row for each system: its number of candidates, and what it is worth for this query."""
    candidates: Sequence[Candidate]
    notes: Sequence[str]

    @property
    def names(self) -> list[str]:
        """The systems' names."""
        return [str(row[0]) for row in self.systems.rows]

    def section(self) -> Section:
        """All of it as tables."""
        tables = [self.systems, side_by_side(self.candidates, self.names, self.unit)]
        name = f"query {self.query.query_id}, {self.unit}"
        return Section(name, self.query.query_set, tables, (), self.notes, lead=self.query.text)


def show(
    finished: Finished,
    query_id: str,
    *,
    query_set: str | None = None,
    systems: Sequence[str] = (),
    num: int = NUM_CANDIDATES,
) -> list[QueryView]:
    """The query in every query set that has its id, of passages first, then of documents.

    Args:
        finished: the workspace.
        query_id: its id in the queries file.
        query_set: one query set alone.
        systems: some systems alone, in this order; all of them unless given.
        num: how many of each system's first candidates, and of the other relevant ones at most.

    Raises:
        InputError: no such query, query set or system.
    """
    shown = []
    for query in find_query(finished, query_id, query_set):
        _check_systems(finished, query.query_set, systems)
        wanted = dict.fromkeys(systems)
        for unit in units():
            own = finished.systems(query.query_set, unit)
            names = [name for name in wanted if name in own] if wanted else own
            if names:
                shown.append(_of_unit(finished, query, unit, names, num))
    return shown


def _check_systems(finished: Finished, query_set: str, systems: Sequence[str]) -> None:
    known = [name for unit in units() for name in finished.systems(query_set, unit)]
    problems = [
        f"--system {name}: no run of {query_set}; expected one of {', '.join(known)}"
        for name in systems
        if name not in known
    ]
    if problems:
        raise InputError(problems)


def _of_unit(
    finished: Finished, query: QueryOfSet, unit: Unit, names: Sequence[str], num: int
) -> QueryView:
    runs = {name: finished.run_of_query(name, query.query_set, query.row) for name in names}
    lists = {name: _places(run) for name, run in runs.items()}
    judged = finished.judgements(query.query_set, unit)
    if judged is not None:
        judged = judged.filter(pc.equal(judged["query_id"], query.query_id))
    grades = grades_of(judged).get(query.query_id, {}) if judged is not None else {}
    least = relevant_grade(finished) if finished.recipe.evaluate is not None else 1
    here = finished.ranked(unit)
    known = _rows_of(here, lists, list(grades))
    relevant = {row: grades[name] for name, row in known.items() if grades[name] >= least}
    rows = np.array(chosen(lists, relevant, num), np.int64)
    texts, ids = here.texts(rows), here.ids(rows)
    candidates = [
        Candidate(
            name,
            grades.get(name),
            text,
            shared_words(query.text, text),
            {system: own[row] for system, own in lists.items() if row in own},
        )
        for row, name, text in zip(rows.tolist(), ids, texts, strict=True)
    ]
    notes = [_about(grades, least, unit)]
    absent = [name for name in grades if name not in known and grades[name] >= least]
    if absent:
        where = "not in the collection" if here.index is not None else "in no run"
        more = f" and {len(absent) - num:,} more" if len(absent) > num else ""
        notes.append(f"relevant, but {where}: {', '.join(absent[:num])}{more}")
    notes += finished.left_out(query.query_set, names)
    of_unit = {name: finished.named(run, query.query_set, unit) for name, run in runs.items()}
    return QueryView(query, unit, _worth(finished, of_unit, judged), candidates, notes)


def _places(run: pa.Table) -> dict[int, PlaceInList]:
    columns = (run[name].to_pylist() for name in ("passage_row", "rank", "score", "scored_by"))
    return {row: PlaceInList(*told) for row, *told in zip(*columns, strict=True)}


def _rows_of(here: RankedUnit, lists: Lists, ids: Sequence[str]) -> dict[str, int]:
    """The rows of judged ids: of the index of ids, or of the lists where there is none."""
    if here.index is not None:
        found = zip(ids, here.rows_of(ids).tolist(), strict=True)
        return {name: row for name, row in found if row >= 0}
    rows = np.array(sorted({row for own in lists.values() for row in own}), np.int64)
    wanted = set(ids)
    named = zip(here.ids(rows), rows.tolist(), strict=True)
    return {name: row for name, row in named if name in wanted}


def _about(grades: dict[str, int], least: int, unit: Unit) -> str:
    if not grades:
        return f"no {unit} were judged for this query"
    num = sum(grade >= least for grade in grades.values())
    return f"judged {unit}: {len(grades):,}; relevant, of grade {least} or higher: {num:,}"


def _worth(finished: Finished, runs: dict[str, pa.Table], judged: pa.Table | None) -> Table:
    """A row for each system: its candidates, the recipe's measures and its shares of unjudged."""
    evaluated = finished.recipe.evaluate
    if judged is None or not len(judged) or evaluated is None:
        return Table("Systems", ["system", "candidates"], [[n, len(r)] for n, r in runs.items()])
    ks = sorted({DEFAULT_CUTOFF, *cutoffs_in(evaluated.measures)})
    grades = grades_of(judged)
    rows: list[list[Value]] = []
    for name, run in runs.items():
        values = dict.fromkeys(evaluated.measures, 0.0)  # as a query counts that a run lacks
        if len(run):
            values = evaluate(run, judged, evaluated.measures, warn=False).mean
        missing = [unjudged(run, grades, k) if len(run) else None for k in ks]
        rows.append([name, len(run), *(values[m] for m in evaluated.measures), *missing])
    columns = ["system", "candidates", *evaluated.measures, *(f"unjudged@{k}" for k in ks)]
    return Table("Systems", columns, rows)


def write_page(finished: Finished, shown: Sequence[QueryView]) -> list[Path]:
    """The pages analysis/query.SET.ID.html, one for each query set; with a twin in JSON."""
    folder, written = finished.workspace.folder, []
    for query_set in dict.fromkeys(part.query.query_set for part in shown):
        sections = [part.section() for part in shown if part.query.query_set == query_set]
        query_id = shown[0].query.query_id
        name = f"query.{query_set}.{_file_name(query_id)}"
        title = f"raypipe: {finished.recipe.name}, query {query_id}"
        twins = {f"{name}.json": {"sections": [section.to_json() for section in sections]}}
        path = write_with_twins(folder, f"{TWINS}/{name}.html", title, sections, twins)
        written.append(path)
    return written


def _file_name(query_id: str) -> str:
    """The id as part of a file's name on any system."""
    quoted = quote(query_id, safe=" ")
    if len(quoted) <= LONGEST_NAME:
        return quoted
    return f"{quoted[:LONGEST_NAME]}-{sha256(query_id.encode()).hexdigest()[:16]}"


WIDTH = 100
"""Columns where there is no terminal that has its own."""
NUM_LINES = 2
"""Of a candidate's text."""
LEAST_TEXT = 40
"""Columns for texts; where the systems leave fewer, the ranks stand above the text instead."""


def aligned(candidates: Sequence[Candidate], systems: Sequence[str], *, width: int = WIDTH) -> str:
    """Each candidate's rank in every system with its true score below, and beside them its text.

    A score in brackets is of a stage below, which the system left as it was. Texts are cut after
    two lines. No line is longer than `width`.
    """
    ranks = [[_place(each.places.get(name), name) for name in systems] for each in candidates]
    lengths = [
        max(len(line) for cell in (name, *(row[at] for row in ranks)) for line in cell.split("\n"))
        for at, name in enumerate(systems)
    ]
    beside = sum(lengths) + 2 * len(systems) + LEAST_TEXT <= width
    grid = Grid(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="")
    if beside:
        for name, length in zip(systems, lengths, strict=True):
            grid.add_column(name, justify="right", no_wrap=True, min_width=length)
        grid.add_column("", overflow="fold")
    else:
        grid.add_column("", overflow="fold")
    left = width - (sum(lengths) + 2 * len(systems) if beside else 0)
    for each, row in zip(candidates, ranks, strict=True):
        told = _told(each, left)
        if beside:
            grid.add_row(*map(Text, row), Text(told))
        else:
            places = zip(systems, row, strict=True)
            stands = "  ".join(f"{name} {' '.join(cell.split())}" for name, cell in places)
            grid.add_row(Text(f"{stands}\n{told}"))
    return _printed(grid, width)


def values(columns: Sequence[str], rows: Sequence[Sequence[Value]], *, width: int = WIDTH) -> str:
    """A table of numbers under their names; names too long for the width are folded."""
    grid = Grid(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, header_style="")
    for place, column in enumerate(columns):
        grid.add_column(column, justify="right" if place else "left", overflow="fold")
    for row in rows:
        grid.add_row(*(Text(shown(cell, name)) for cell, name in zip(row, columns, strict=True)))
    return _printed(grid, width)


def _printed(grid: Grid, width: int) -> str:
    """The table's lines, without colours and blanks at their ends."""
    stream = io.StringIO()
    Console(file=stream, width=width, color_system=None, legacy_windows=False).print(grid)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()).strip("\n")


def _place(place: PlaceInList | None, system: str) -> str:
    if place is None:
        return "-\n"
    score = f"{place.score:.4g}" if math.isfinite(place.score) else str(place.score)
    return f"{place.rank:,}\n" + (score if place.scored_by == system else f"({score})")


def _told(candidate: Candidate, width: int) -> str:
    """Grade and id, two lines of text, the words that it shares with the query, and a blank."""
    grade = NOT_JUDGED if candidate.grade is None else f"grade {candidate.grade}"
    lines = folded(plain(candidate.text) or "no text", width)
    if len(lines) > NUM_LINES:
        lines = [*lines[: NUM_LINES - 1], f"{folded(lines[NUM_LINES - 1], width - 4)[0]} ..."]
    shared = f"shared: {', '.join(candidate.shared)}" if candidate.shared else "no shared word"
    return "\n".join([f"{grade}  {plain(candidate.name)}", *lines, shared, ""])


def folded(text: str, width: int) -> list[str]:
    """The text's lines of at most `width` columns; words longer than a line are broken."""
    lines = Text(text).wrap(Console(width=width), width, overflow="fold")
    return [line.plain.rstrip() for line in lines]
