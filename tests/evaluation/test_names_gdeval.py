"""ERR and nDCG of gains 2^grade - 1, by any query ids, and their highest grade."""

from math import log2

import pyarrow as pa
import pytest

from raypipe import schema
from raypipe.errors import InputError
from raypipe.evaluation.measures import evaluate
from raypipe.evaluation.names import check_grades

MEASURES = ["ERR@10", "nDCG(dcg='exp-log2')@10", "RR@10"]
DIGITS = 6e-6
"""gdeval writes five digits after the point."""


def run_of(lists):
    rows = [(q, p, n, -float(n)) for q, ps in lists.items() for n, p in enumerate(ps, 1)]
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=schema.RUN_FILE)


def qrels_of(grades):
    rows = [(q, p, grade) for q, own in grades.items() for p, grade in own.items()]
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=schema.QRELS)


GRADES = {"x": 2, "z": 1, "w": 0, "v": -1}
ERR = 3 / 16 + (1 - 3 / 16) * (1 / 16) / 3
NDCG = (3 + 1 / log2(4)) / (3 + 1 / log2(3))


@pytest.mark.parametrize(
    "names", [("q1", "q2"), ("a-1", "b-1"), ("enwiki:A%20B/c", "été"), ("7", "007")]
)
def test_err_and_exponential_gains_are_those_of_their_equations_whatever_the_ids(names):
    one, other = names
    run = run_of({one: ["x", "y", "z"], other: ["y", "z"]})
    found = evaluate(run, qrels_of({other: {"z": 4}, one: GRADES}), MEASURES)
    assert found.per_query["ERR@10"][one] == pytest.approx(ERR, abs=DIGITS)
    assert found.per_query["ERR@10"][other] == pytest.approx(15 / 16 / 2, abs=DIGITS)
    assert found.per_query[MEASURES[1]][one] == pytest.approx(NDCG, abs=DIGITS)
    assert found.per_query[MEASURES[1]][other] == pytest.approx(1 / log2(3), abs=DIGITS)
    assert found.per_query["RR@10"] == {other: 0.5, one: 1.0}


def test_a_query_without_a_relevant_passage_or_a_line_counts_0():
    judged = qrels_of({"q1": {"x": 0}, "q2": {"x": 1}, "q3": {"x": 4}})
    found = evaluate(run_of({"q1": ["x"], "q3": ["x"]}), judged, MEASURES, warn=False)
    assert found.per_query["ERR@10"] == {"q1": 0.0, "q2": 0.0, "q3": 0.9375}
    assert found.mean["ERR@10"] == pytest.approx(0.9375 / 3)


def test_a_run_of_the_set_without_any_judged_query_counts_0_and_another_is_refused():
    judged, run = qrels_of({"q1": {"x": 1}}), run_of({"q2": ["x"]})
    for given in (run, run.slice(0, 0)):
        found = evaluate(given, judged, ["RR@10", "ERR@10"], warn=False, of_set=True)
        assert found.mean == {"RR@10": 0.0, "ERR@10": 0.0} and found.missing_queries == ("q1",)
        with pytest.raises(InputError, match="share no query"):
            evaluate(given, judged, ["RR@10"], warn=False)


def test_a_grade_above_4_is_refused_with_its_place_for_these_measures_alone():
    judged = qrels_of({"q1": {"x": 4, "y": 5}})
    for call in (
        lambda: evaluate(run_of({"q1": ["x"]}), judged, MEASURES),
        lambda: check_grades(judged, MEASURES),
    ):
        with pytest.raises(InputError) as raised:
            call()
        first, second = raised.value.problems
        assert first.startswith("measure 'ERR@10': expected grades up to 4, its highest; found ")
        assert "grade 5 (query q1, passage y)" in first and "exp-log2" in second
    check_grades(judged, ["RR@10", "nDCG@10"])
    check_grades(qrels_of({"q1": {"x": 4}}), MEASURES)
    assert evaluate(run_of({"q1": ["y"]}), judged, ["nDCG@10"]).mean["nDCG@10"] > 0
