"""What measuring says beside the means: counts, missing queries, more queries than one handful."""

import logging

import numpy as np
import pyarrow as pa
import pytest

from raypipe import schema
from raypipe.errors import InputError
from raypipe.evaluation.measures import QUERIES_AT_ONCE, evaluate


def run_of(rankings):
    rows = [
        {"query_id": q, "passage_id": p, "rank": rank, "score": -float(rank)}
        for q, passages in rankings.items()
        for rank, p in enumerate(passages, 1)
    ]
    return pa.Table.from_pylist(rows, schema.RUN_FILE)


def qrels_of(*rows):
    return pa.Table.from_pylist(
        [{"query_id": q, "passage_id": p, "relevance": g} for q, p, g in rows], schema.QRELS
    )


def test_more_queries_than_are_measured_at_once_are_all_measured():
    num = 2 * QUERIES_AT_ONCE + 3
    rng = np.random.default_rng(0)
    places = rng.integers(1, 6, num)
    rankings = {
        f"q{n}": ["a" if rank == place else f"x{rank}" for rank in range(1, 6)]
        for n, place in enumerate(places.tolist())
    }
    judged = [(f"q{n}", "a", 1) for n in range(num)]
    found = evaluate(run_of(rankings), qrels_of(*judged), ["RR", "RR@3", "R@2"])
    for n, place in enumerate(places.tolist()):
        query = f"q{n}"
        assert found.per_query["RR"][query] == pytest.approx(1 / place)
        assert found.per_query["RR@3"][query] == pytest.approx(1 / place if place <= 3 else 0)
        assert found.per_query["R@2"][query] == (place <= 2)
    assert found.mean["RR"] == pytest.approx(np.mean(1 / places))
    assert list(found.per_query["RR"]) == [f"q{n}" for n in range(num)]
    assert (found.num_retrieved, found.num_judged) == (5 * num, num)


def test_lines_and_judged_lines_are_counted_for_the_queries_of_the_qrels(caplog):
    run = run_of({"2": ["a", "b", "c"], "1": ["a", "z"], "9": ["a"]})
    qrels = qrels_of(("1", "a", 1), ("1", "b", 0), ("2", "c", 0), ("2", "a", 2), ("5", "q", 1))
    with caplog.at_level(logging.WARNING):
        found = evaluate(run, qrels, ["NumRel", "NumRet", "P@2", "RR(rel=2)"])
    assert (found.num_retrieved, found.num_judged) == (5, 3)
    assert (found.missing_queries, found.unjudged_queries) == (("5",), ("9",))
    assert caplog.messages == [
        "run: 1 query of the qrels is not in the run and counts 0: 5",
        "run: 1 query of the run is not in the qrels and is left out: 9",
    ]
    # Counts are sums, others means over the three queries of the qrels.
    assert found.mean["NumRet"] == 5 and found.num_topics["P@2"] == 3
    assert found.per_query["P@2"] == {"1": 0.5, "2": 0.5, "5": 0.0}
    assert found.mean["P@2"] == pytest.approx(1 / 3)
    assert found.mean["RR(rel=2)"] == pytest.approx(1 / 3)
    caplog.clear()
    evaluate(run, qrels, ["P@2"], warn=False)
    assert caplog.text == ""


def test_a_run_none_of_whose_passages_is_judged_is_told(caplog):
    with caplog.at_level(logging.WARNING):
        evaluate(run_of({"1": ["x", "y"]}), qrels_of(("1", "a", 1)), ["RR"])
    assert "none of 2 retrieved ids is judged" in caplog.text


def test_the_rank_decides_where_scores_say_otherwise():
    run = run_of({"1": ["b", "a", "c"]})
    turned = run.set_column(3, "score", [pa.array([0.0, 5.0, 9.0], pa.float32())])
    qrels = qrels_of(("1", "a", 1))
    assert evaluate(turned, qrels, ["RR"]).mean == {"RR": 0.5}


def test_runs_and_qrels_that_cannot_be_compared_are_refused():
    run = run_of({"1": ["a"]})
    with pytest.raises(InputError, match="share no query .*run: 1; qrels: 7"):
        evaluate(run, qrels_of(("7", "a", 1)), ["RR"])
    with pytest.raises(InputError, match=r"query 1, passage a: grades \[1, 2\]"):
        evaluate(run, qrels_of(("1", "a", 1), ("1", "a", 2)), ["RR"])
    assert evaluate(run, qrels_of(("1", "a", 1), ("1", "a", 1)), ["RR"]).mean == {"RR": 1.0}
    with pytest.raises(InputError, match="no judgements"):
        evaluate(run, schema.QRELS.empty_table(), ["RR"])
