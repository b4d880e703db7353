import pyarrow as pa

from raypipe import schema
from raypipe.analysis.by_query.movers import Move, moves, shared_words


def run(order, stage, *, scored=None):
    """A run of two queries with five passages each, by their rows."""
    lines = [(q, row, rank) for q, rows in enumerate(order) for rank, row in enumerate(rows, 1)]
    stages = [stage if scored is None or rank <= scored else "bm25" for _, _, rank in lines]
    queries, rows, ranks = zip(*lines, strict=True)
    columns = [queries, rows, ranks, [0.0] * len(lines), stages]
    return pa.table(
        [pa.array(c, f.type) for c, f in zip(columns, schema.RUN, strict=True)], schema=schema.RUN
    )


BEFORE = run([[1, 2, 3, 4, 5], [9, 8, 7, 6, 5]], "bm25")
AFTER = run([[4, 1, 2, 3, 5], [7, 8, 9, 6, 5]], "mono", scored=4)


def test_those_that_moved_furthest_come_first_up_then_down():
    assert moves(BEFORE, AFTER, scored_by="mono", num=2) == [
        Move(0, 4, 4, 1), Move(1, 7, 3, 1), Move(1, 9, 1, 3), Move(0, 1, 1, 2),
    ]  # fmt: skip


def test_what_did_not_move_or_was_not_scored_is_no_mover():
    every = moves(BEFORE, AFTER, scored_by="mono", num=99)
    assert len(every) == 6 and all(move.before != move.after for move in every)
    assert moves(BEFORE, AFTER, scored_by="duo", num=5) == []


def test_shared_words_are_whole_whatever_their_case_and_each_once():
    assert shared_words("The Zebra, the lease", "a zebra's THE") == ["the", "zebra"]
    assert shared_words("art", "party") == []
