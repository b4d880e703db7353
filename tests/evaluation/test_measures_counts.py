"""What decides a measure and what is said beside the means: ranks, counts, missing queries."""

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
    judged = [(f"q{n}", "a", 1) for n in range(num + 1)]
    found = evaluate(run_of(rankings), qrels_of(*judged), ["RR", "RR@3", "R@2", "AP"])
    for n, place in enumerate(places.tolist()):
        query = f"q{n}"
        assert found.per_query["RR"][query] == pytest.approx(1 / place)
        assert found.per_query["RR@3"][query] == pytest.approx(1 / place if place <= 3 else 0)
        assert found.per_query["R@2"][query] == (place <= 2)
    assert found.missing_queries == (f"q{num}",) and found.per_query["AP"][f"q{num}"] == 0
    assert found.mean["RR"] == pytest.approx(np.sum(1 / places) / (num + 1))
    assert found.mean["AP"] == pytest.approx(found.mean["RR"])
    assert list(found.per_query["RR"]) == [f"q{n}" for n in range(num + 1)]
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
    # Counts are sums, of queries with a result; others means over the three queries of the qrels.
    assert (found.mean["NumRel"], found.mean["NumRet"], found.num_topics["P@2"]) == (2, 5, 3)
    assert found.per_query["P@2"] == {"1": 0.5, "2": 0.5, "5": 0.0}
    assert found.mean["P@2"] == pytest.approx(1 / 3)
    assert found.mean["RR(rel=2)"] == pytest.approx(1 / 3)
    caplog.clear()
    evaluate(run, qrels, ["P@2"], warn=False)
    assert caplog.text == ""


def test_a_run_none_of_whose_passages_is_judged_is_told(caplog):
    with caplog.at_level(logging.WARNING):
        found = evaluate(run_of({"1": ["x", "y"]}), qrels_of(("1", "a", 1)), ["RR"])
    assert found.num_judged == 0 and "none of 2 retrieved ids is judged" in caplog.text


def test_ten_names_are_shown_and_of_eleven_that_there_are_more(caplog):
    def measured(count):
        qrels = qrels_of(("x", "a", 1), *((f"q{n:02}", "a", 1) for n in range(count)))
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            evaluate(run_of({"x": ["a"]}), qrels, ["RR"])
        return caplog.text

    assert "count 0: q00, " in measured(10) and "q09\n" in measured(10)
    assert "q09, ...\n" in measured(11) and "q10" not in measured(11)


def test_names_come_back_as_they_were_given_aliases_too():
    found = evaluate(run_of({"1": ["a"]}), qrels_of(("1", "a", 1)), ["MRR@10", "RR@10", "MAP"])
    assert found.mean == {"MRR@10": 1.0, "RR@10": 1.0, "MAP": 1.0}
    assert list(found.mean) == ["MRR@10", "RR@10", "MAP"]
    assert found.per_query["MRR@10"] == {"1": 1.0}


def test_the_rank_decides_in_every_provider_whatever_the_scores_say():
    """Three providers: trec_eval (AP, RR), the MS MARCO script (RR@10), the judged rate."""
    run = run_of({"1": ["x", "a", "b"]})
    upside_down = run.set_column(3, "score", [pa.array([1.0, 5.0, 5.0], pa.float32())])
    qrels = qrels_of(("1", "a", 1), ("1", "b", 0))
    found = evaluate(upside_down, qrels, ["AP", "RR", "RR@10", "P@1", "Judged@1"])
    assert found.mean == {"AP": 0.5, "RR": 0.5, "RR@10": 0.5, "P@1": 0.0, "Judged@1": 0.0}


def test_relevance_below_the_grade_leaves_the_query_in_the_mean():
    run, qrels = run_of({"1": ["a"], "2": ["b"]}), qrels_of(("1", "a", 1), ("2", "b", 2))
    found = evaluate(run, qrels, ["RR(rel=2)@10"])
    assert (found.mean, found.num_topics) == ({"RR(rel=2)@10": 0.5}, {"RR(rel=2)@10": 2})


def test_runs_and_qrels_that_cannot_be_measured_are_refused():
    run, one = run_of({"1": ["a"]}), ("1", "a", 1)
    for given, qrels, told in (
        (run, qrels_of(("7", "a", 1)), "share no query .*run: 1; qrels: 7"),
        (run, schema.QRELS.empty_table(), "no judgements"),
        (
            run,
            qrels_of(one, one, ("1", "a", 2)),
            r"query 1, passage a: grades \[1, 1, 2\]; keep one",
        ),
        (run_of({"1": ["a", "a"]}), qrels_of(one), "ranks passage a 2 times"),
    ):
        with pytest.raises(InputError, match=told):
            evaluate(given, qrels, ["RR"])
    assert evaluate(run, qrels_of(one, one), ["RR"]).mean == {"RR": 1.0}


def test_two_grades_of_a_passage_are_found_behind_any_number_of_harmless_repeats():
    repeated = [(f"q{n:02}", "a", 1) for n in range(60) for _ in range(2)]
    lines = [*repeated, *((f"x{n:02}", "a", grade) for n in range(60) for grade in (0, 1))]
    with pytest.raises(InputError) as refused:
        evaluate(run_of({"q00": ["a"]}), qrels_of(*lines), ["RR"])
    assert [*refused.value.problems] == [
        f"qrels: query x{n:02}, passage a: grades [0, 1]; keep one" for n in range(10)
    ]
