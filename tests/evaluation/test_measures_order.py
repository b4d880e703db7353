"""The rank decides in every provider; tables that cannot be measured are refused."""

import pyarrow as pa
import pytest

from raypipe import schema
from raypipe.errors import InputError
from raypipe.evaluation.measures import QUERIES_AT_ONCE, evaluate

QRELS = pa.table([["1", "1"], ["a", "b"], [1, 0]], schema=schema.QRELS)


def run(*lines):
    return pa.table(list(map(list, zip(*lines, strict=True))), schema=schema.RUN_FILE)


def test_names_come_back_as_they_were_given_aliases_too():
    found = evaluate(run(("1", "a", 1, 1.0)), QRELS, ["MRR@10", "RR@10", "MAP"])
    assert list(found.mean) == ["MRR@10", "RR@10", "MAP"]
    assert set(found.mean.values()) == {1.0}
    assert found.per_query["MRR@10"] == {"1": 1.0}


def test_counts_are_summed_not_averaged():
    qrels = pa.table([["1", "2", "2"], ["a", "b", "c"], [1, 1, 1]], schema=schema.QRELS)
    found = evaluate(run(("1", "a", 1, 1.0), ("2", "b", 1, 1.0)), qrels, ["NumRel", "NumRet"])
    assert found.mean == {"NumRel": 3.0, "NumRet": 2.0}


def test_the_rank_decides_in_every_provider_whatever_the_scores_say():
    """Three providers: trec_eval (AP, RR), the MS MARCO script (RR@10), the judged rate."""
    upside_down = run(("1", "x", 1, 1.0), ("1", "a", 2, 5.0), ("1", "b", 3, 5.0))
    found = evaluate(upside_down, QRELS, ["AP", "RR", "RR@10", "P@1", "Judged@1"])
    assert found.mean == {"AP": 0.5, "RR": 0.5, "RR@10": 0.5, "P@1": 0.0, "Judged@1": 0.0}


def test_many_queries_are_measured_in_parts_with_the_same_result():
    num_queries = 2 * QUERIES_AT_ONCE + 3
    queries = [str(at) for at in range(num_queries)]
    qrels = pa.table([queries, ["a"] * num_queries, [1] * num_queries], schema=schema.QRELS)
    found = evaluate(
        run(*((query, "a", 1, 1.0) for query in queries[: num_queries - 1])), qrels, ["RR@10", "AP"]
    )
    assert found.mean["RR@10"] == (num_queries - 1) / num_queries == found.mean["AP"]
    assert found.missing_queries == (str(num_queries - 1),)
    assert list(found.per_query["AP"]) == queries
    assert found.num_retrieved == found.num_judged == num_queries - 1


def test_relevance_below_the_grade_leaves_the_query_in_the_mean():
    qrels = pa.table([["1", "2"], ["a", "b"], [1, 2]], schema=schema.QRELS)
    found = evaluate(run(("1", "a", 1, 1.0), ("2", "b", 1, 1.0)), qrels, ["RR(rel=2)@10"])
    assert found.mean == {"RR(rel=2)@10": 0.5}
    assert found.num_topics == {"RR(rel=2)@10": 2}


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(InputError, match="share no query"):
        evaluate(run(("9", "a", 1, 1.0)), QRELS, ["AP"])
    with pytest.raises(InputError, match="no judgements"):
        evaluate(run(("1", "a", 1, 1.0)), schema.QRELS.empty_table(), ["AP"])
    twice = pa.table([["1", "1"], ["a", "a"], [1, 0]], schema=schema.QRELS)
    with pytest.raises(InputError, match=r"passage a: grades \[1, 0\]; keep one"):
        evaluate(run(("1", "a", 1, 1.0)), twice, ["AP"])
    with pytest.raises(InputError, match="ranks passage a 2 times"):
        evaluate(run(("1", "a", 1, 1.0), ("1", "a", 2, 0.5)), QRELS, ["RR@10"])


def test_a_run_whose_passages_are_all_unjudged_is_told(caplog):
    found = evaluate(run(("1", "D1", 1, 1.0)), QRELS, ["AP"])
    assert found.num_judged == 0
    assert "none of 1 retrieved ids is judged" in caplog.text
