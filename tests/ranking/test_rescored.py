"""Scored lines in the order of other scores, the rest below as it was."""

import numpy as np
import pyarrow as pa
import pytest

from raypipe import schema
from raypipe.errors import InputError
from raypipe.ranking.rescored import rescored


def run(*lines):
    """(query, passage, score, by), best first."""
    ranks, seen = [], {}
    for query, *_ in lines:
        seen[query] = seen.get(query, 0) + 1
        ranks.append(seen[query])
    queries, passages, scores, by = zip(*lines, strict=True)
    return pa.table([queries, passages, ranks, scores, by], schema=schema.RUN)


OLD = run(
    (0, 7, 3.0, "mono"), (0, 5, 2.0, "mono"), (0, 3, 1.0, "mono"),
    (0, 2, 9.0, "bm25"), (0, 1, 8.0, "bm25"), (1, 4, 5.0, "mono"),
)  # fmt: skip
MASK = np.array([True, True, True, False, False, True])


def keys(*pairs):
    queries, rows = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    return queries, rows, np.full(len(rows), -1, np.int64)


def test_ties_go_by_row_and_the_lines_below_keep_score_and_order():
    wanted = keys((0, 5), (0, 7), (0, 3), (1, 4))
    found = rescored(OLD, MASK, wanted, np.array([4, 6, 4, 1], np.float32)).to_pylist()
    assert [tuple(line.values()) for line in found] == [
        (0, 7, 1, 6.0, "mono"), (0, 3, 2, 4.0, "mono"), (0, 5, 3, 4.0, "mono"),
        (0, 2, 4, 9.0, "bm25"), (0, 1, 5, 8.0, "bm25"), (1, 4, 1, 1.0, "mono"),
    ]  # fmt: skip


def test_a_line_without_another_score_keeps_its_own_and_a_key_of_a_lower_line_does_nothing():
    wanted = keys((0, 5), (0, 2))
    found = rescored(OLD, MASK, wanted, np.array([2.5, 99], np.float32)).to_pylist()
    assert [(line["passage_row"], line["score"]) for line in found] == [
        (7, 3.0), (5, 2.5), (3, 1.0), (2, 9.0), (1, 8.0), (4, 5.0),
    ]  # fmt: skip


def test_a_score_that_is_not_finite_is_refused():
    with pytest.raises(InputError, match="not finite"):
        rescored(OLD, MASK, keys((0, 5)), np.array([np.nan], np.float32))
