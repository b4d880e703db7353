"""The analysis `movers` of a finished workspace; see `raypipe.analysis.by_query.movers`."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from raypipe.analysis.by_query.chains import (
    as_in_last,
    most_changed,
    moved_in,
    ranks_in,
    with_other_ranks,
)
from raypipe.analysis.by_query.movers import moves, shared_words
from raypipe.analysis.plain import cut, plain
from raypipe.analysis.section import Section, Table, Value
from raypipe.driver.analysis.by_query.finding import find_query
from raypipe.driver.analysis.by_query.reordered import Tree, below, trees
from raypipe.driver.analysis.finished import Finished
from raypipe.driver.analysis.measuring import (
    about,
    judgements_of,
    measures_of,
    of_system,
    relevant_grade,
)
from raypipe.evaluation.measures import grades_of
from raypipe.ranking.lookup import places_of

NUM_MOVED = 10
NUM_CHANGED = 3
"""Queries that changed most, if none are chosen."""
NUM_CHARACTERS = 300
"""Of a passage's text."""


def movers(
    finished: Finished, query_set: str, *, num: int = NUM_MOVED, chosen: Sequence[str] = ()
) -> Section:
    """The judged passages that rerankers moved furthest, with their ranks from the first stage on.

    First those of all queries, by reranker; then, of the queries that changed most by the first
    measure from the first stage to the last reranker over it, the passages that moved furthest
    there and the relevant ones that moved. If queries are chosen, only theirs.

    Args:
        finished: the workspace.
        query_set: a judged query set.
        num: passages of each direction.
        chosen: ids of queries.

    Raises:
        InputError: no judgements or measures, or no query of an id.
    """
    grades = grades_of(judgements_of(finished, query_set))
    rows_chosen = [find_query(finished, each, query_set)[0].row for each in chosen]
    told = _Told(finished, query_set, grades)
    judged = finished.judged_rows(query_set)[:2]
    tables, found = [], trees(finished, query_set)
    for tree in found:
        whole = {name: finished.run(name, query_set) for name in tree.systems}
        runs = {name: run.filter(places_of(run, *judged) >= 0) for name, run in whole.items()}
        if not chosen:
            tables += [told.of_reranker(runs, tree, name, num) for name in tree.before]
        of_tree = rows_chosen or _changed(finished, query_set, runs)
        tables += [told.of_query(runs, tree, query, num) for query in of_tree]
    tables = [table for table in tables if table.rows or chosen]
    notes = [*about(finished, query_set), "passages without a judgement are left out"]
    if not found:
        notes.append("no stage reranks passages: score with k0, or aggregate")
    return Section("movers", query_set, tables, (), notes)


def _changed(finished: Finished, query_set: str, runs: Mapping[str, pa.Table]) -> Sequence[int]:
    """The rows of the queries that changed most from the first of the runs to the last."""
    measure = measures_of(finished)[0]
    names = [*runs]
    first, last = (
        of_system(finished, query_set, name).per_query[measure] for name in (names[0], names[-1])
    )
    ids = finished.queries(query_set)["query_id"].to_pylist()
    change = {row: last[q] - first[q] for row, q in enumerate(ids) if q in first}
    return most_changed(change, NUM_CHANGED)


class _Told:
    """Tables of a query set's moved passages."""

    def __init__(
        self, finished: Finished, query_set: str, grades: Mapping[str, Mapping[str, int]]
    ) -> None:
        self._ranked, self._grades = finished.ranked(), grades
        self._queries = finished.queries(query_set).to_pylist()
        self._least = relevant_grade(finished)

    def of_reranker(self, runs: Mapping[str, pa.Table], tree: Tree, name: str, num: int) -> Table:
        """Those of all queries that a reranker moved furthest, with the ranks below it."""
        systems = [*below(tree, name), name]
        found = moves(runs[tree.before[name]], runs[name], scored_by=name, num=num)
        by_query = {
            move.query_row: ranks_in({n: runs[n] for n in systems}, move.query_row)
            for move in found
        }
        passages = self._passages([move.passage_row for move in found])
        rows: list[list[Value]] = []
        for move, (passage, text) in zip(found, passages, strict=True):
            ranks = [by_query[move.query_row][n].get(move.passage_row) for n in systems]
            query = self._queries[move.query_row]
            rows.append([plain(query["text"]), passage, *ranks, *self._about(query, passage, text)])
        columns = ["query", "passage", *systems, "grade", "shared words", "text"]
        return Table(f"Moved furthest by {name}", columns, rows)

    def of_query(self, runs: Mapping[str, pa.Table], tree: Tree, query_row: int, num: int) -> Table:
        """Those of one query that the rerankers of a tree moved furthest, and relevant ones."""
        ranks, query = ranks_in(runs, query_row), self._queries[query_row]
        relevant = self._relevant(with_other_ranks(ranks), query["query_id"])[:num]
        moved = moved_in(runs, tree.before, query_row, num=num)
        found = as_in_last([*moved, *relevant], ranks)
        rows: list[list[Value]] = []
        for row, (passage, text) in zip(found, self._passages(found), strict=True):
            places = [ranks[name].get(row) for name in tree.systems]
            rows.append([passage, *places, *self._about(query, passage, text)])
        title = f"{query['query_id']}: {plain(query['text'])}"
        columns = ["passage", *tree.systems, "grade", "shared words", "text"]
        return Table(title, columns, rows)

    def _relevant(self, rows: Sequence[int], query_id: str) -> list[int]:
        """Those of the passages that are relevant to a query, of the highest grade first."""
        own, least = self._grades.get(query_id, {}), self._least
        graded = zip(rows, self._ranked.ids(np.array(rows, np.int64)), strict=True)
        grades = {row: own[name] for row, name in graded if own.get(name, least - 1) >= least}
        return sorted(grades, key=lambda row: (-grades[row], row))

    def _passages(self, rows: Sequence[int]) -> list[tuple[str, str]]:
        places = np.array(rows, np.int64)
        found = zip(self._ranked.ids(places), self._ranked.texts(places), strict=True)
        return list(found)

    def _about(self, query: Mapping[str, str], passage: str, text: str) -> list[Value]:
        """Grade, shared words and the beginning of the text."""
        grade = self._grades.get(query["query_id"], {}).get(passage)
        shared = ", ".join(shared_words(query["text"], text)) or "none"
        return [grade, shared, cut(plain(text), NUM_CHARACTERS)]
