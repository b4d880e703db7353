"""One query of a finished workspace: its candidates side by side in every system."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from raypipe.analysis.by_query.candidates import Candidate, Lists, Place, chosen, side_by_side
from raypipe.analysis.by_query.movers import shared_words
from raypipe.analysis.section import Section, Table, Value
from raypipe.driver.analysis.by_query.finding import Found, find_query
from raypipe.driver.analysis.by_query.unjudged import cutoffs
from raypipe.driver.analysis.finished import Finished
from raypipe.driver.analysis.measuring import relevant_grade
from raypipe.driver.analysis.ranked import Ranked
from raypipe.errors import InputError
from raypipe.evaluation.compare import unjudged
from raypipe.evaluation.measures import evaluate, grades_of
from raypipe.vocabulary import Unit, units

NUM_CANDIDATES = 10


@dataclass(frozen=True)
class Shown:
    """A query in the systems that rank passages, or in those that rank documents."""

    query: Found
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
) -> list[Shown]:
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


def _of_unit(finished: Finished, query: Found, unit: Unit, names: Sequence[str], num: int) -> Shown:
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
    return Shown(query, unit, _worth(finished, of_unit, judged), candidates, notes)


def _places(run: pa.Table) -> dict[int, Place]:
    columns = (run[name].to_pylist() for name in ("passage_row", "rank", "score", "scored_by"))
    return {row: Place(*told) for row, *told in zip(*columns, strict=True)}


def _rows_of(here: Ranked, lists: Lists, ids: Sequence[str]) -> dict[str, int]:
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
    ks, grades = cutoffs(evaluated.measures), grades_of(judged)
    rows: list[list[Value]] = []
    for name, run in runs.items():
        values = dict.fromkeys(evaluated.measures, 0.0)  # as a query counts that a run lacks
        if len(run):
            values = evaluate(run, judged, evaluated.measures, warn=False).mean
        missing = [unjudged(run, grades, k) if len(run) else None for k in ks]
        rows.append([name, len(run), *(values[m] for m in evaluated.measures), *missing])
    columns = ["system", "candidates", *evaluated.measures, *(f"unjudged@{k}" for k in ks)]
    return Table("Systems", columns, rows)
