"""The analysis `movers` of a finished workspace; see `raypipe.analysis.movers`."""

import numpy as np

from raypipe.analysis.movers import moves, shared_words
from raypipe.analysis.section import Section, Table, Value
from raypipe.config.pipeline.kinds import Aggregate, DuoScore, MonoScore
from raypipe.driver.analysis.finished import Finished
from raypipe.driver.analysis.measuring import about, judgements_of

NUM_MOVED = 10
NUM_CHARACTERS = 300
"""Of a passage's text."""


def movers(finished: Finished, query_set: str, *, num: int = NUM_MOVED) -> Section:
    """The passages that each reranker moved furthest up and down, with texts and grades."""
    grades = _grades(finished, query_set)
    queries = finished.queries(query_set).to_pylist()
    tables = []
    for name in finished.systems(query_set):
        before = _before(finished, name)
        if before is None:
            continue
        run = finished.run(name, query_set)
        found = moves(finished.run(before, query_set), run, scored_by=name, num=num)
        rows_moved = np.array([move.passage_row for move in found], np.int64)
        texts, ids = finished.texts(rows_moved), finished.passage_ids(rows_moved)
        rows: list[list[Value]] = []
        for move, text, passage in zip(found, texts, ids, strict=True):
            query = queries[move.query_row]
            shared = ", ".join(shared_words(query["text"], text)) or "none"
            grade = grades.get((query["query_id"], passage))
            short = text if len(text) <= NUM_CHARACTERS else f"{text[:NUM_CHARACTERS]} ..."
            rows.append([query["text"], passage, move.before, move.after, grade, shared, short])
        columns = ["query", "passage", before, name, "grade", "shared words", "text"]
        tables.append(Table(f"Moved furthest by {name}", columns, rows))
    notes = [*about(finished, query_set), "grade -: the passage has no judgement"]
    return Section("movers", query_set, tables, (), notes)


def _before(finished: Finished, name: str) -> str | None:
    """The run that a reranker reordered; None for other stages."""
    stages = finished.recipe.stages
    stage = stages[name]
    if isinstance(stage, MonoScore):
        return stage.run
    if isinstance(stage, Aggregate):
        pairs = stages[stage.pairs]
        return pairs.run if isinstance(pairs, DuoScore) else None
    return None


def _grades(finished: Finished, query_set: str) -> dict[tuple[str, str], int]:
    columns = judgements_of(finished, query_set).to_pydict()
    keys = zip(columns["query_id"], columns["passage_id"], strict=True)
    return dict(zip(keys, columns["relevance"], strict=True))
