import pyarrow as pa

from raypipe import schema
from raypipe.leaderboard.script import reciprocal_rank


def test_the_script_looks_at_the_cutoff_and_at_no_grade():
    qrels = pa.table(
        [["1", "1", "2", "3"], ["a", "b", "c", "d"], [0, 1, 1, 1]], schema=schema.QRELS
    )
    rankings = {"1": ["x", "a", "b"], "2": ["x", "y", "c"], "9": ["a"]}
    assert reciprocal_rank(rankings, qrels, cutoff=2) == (0.5 / 3, 3)
    assert reciprocal_rank(rankings, qrels, cutoff=3) == ((1 / 2 + 1 / 3) / 3, 3)
    assert reciprocal_rank(rankings, qrels, cutoff=1) == (0.0, 3)
