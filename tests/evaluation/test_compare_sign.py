import numpy as np
import pyarrow as pa
import pytest

from raypipe import schema
from raypipe.evaluation.compare import compare

QUERIES = [str(number) for number in range(12)]


QRELS = pa.table(
    [QUERIES, ["a"] * 12, np.ones(12, np.int32)],
    schema=schema.QRELS,
)


def table(ranks):
    """A run in which query i has its relevant passage `a` at ranks[i]."""
    rows = [
        {"query_id": q, "passage_id": "a" if r == rank else f"x{r}", "rank": r, "score": -float(r)}
        for q, rank in zip(QUERIES, ranks, strict=False)
        for r in range(1, 5)
    ]
    return pa.Table.from_pylist(rows, schema.RUN_FILE)


def test_a_run_that_is_better_has_wins_and_a_positive_difference():
    qrels = QRELS.slice(0, 3)
    base, other = table([2, 1, 4]), table([1, 1, 2])
    first, better = compare({"b": base, "o": other}, qrels, ["RR"], baseline="b").rows
    assert (better.wins, better.ties, better.losses) == (2, 1, 0)
    # (1 - 1/2 + 0 + 1/2 - 1/4) / 3
    assert better.difference.mean == pytest.approx(0.25)
    assert 0 <= better.difference.low < better.difference.high <= 0.5
    (worse, _) = compare({"b": base, "o": other}, qrels, ["RR"], baseline="o").rows
    assert (worse.wins, worse.ties, worse.losses) == (0, 1, 2)
    assert worse.difference.mean == pytest.approx(-0.25)
    assert first.difference is None and worse.difference.high <= 0
