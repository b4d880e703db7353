import numpy as np
import pyarrow as pa
import pytest

from raypipe import schema
from raypipe.errors import InputError
from raypipe.evaluation.compare import compare, unjudged

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


def test_the_share_without_judgement_is_of_the_first_k_of_judged_queries():
    run = pa.table(
        [["1", "1", "1", "2", "9"], ["a", "b", "c", "x", "y"], [1, 2, 3, 1, 1], [1.0] * 5],
        schema=schema.RUN_FILE,
    )
    judged = {"1": {"a", "c"}, "2": {"z"}}
    assert unjudged(run, judged, 1) == 1 / 2
    assert unjudged(run, judged, 2) == 2 / 3
    assert unjudged(run, judged, 3) == 2 / 4 and unjudged(run, {}, 3) == 0.0


def test_a_comparison_takes_the_cutoff_of_its_measure_or_ten():
    qrels = pa.table([["1"], ["a"], [1]], schema=schema.QRELS)
    lines = [["1"] * 20, ["a", *(f"x{n}" for n in range(19))], list(range(1, 21)), [1.0] * 20]
    run = pa.table(lines, schema=schema.RUN_FILE)
    found = compare({"r": run, "b": run}, qrels, ["RR@2", "AP", "R@20"], baseline="b")
    shares = {row.measure: row.unjudged for row in found.rows if row.run == "r"}
    assert shares == {"RR@2": 1 / 2, "AP": 9 / 10, "R@20": 19 / 20}
    assert found.family == 3 and [row.run for row in found.rows] == ["r", "b"] * 3
    base = next(row for row in found.rows if row.run == "b")
    assert (base.difference, base.wins, base.p_t, base.p_holm) == (None,) * 4
    with pytest.raises(InputError, match="NumRel.*: a count over all queries"):
        compare({"r": run, "b": run}, qrels, ["NumRel"], baseline="b")
