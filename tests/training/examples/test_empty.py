import pytest
from training_texts import wanted

from raypipe.training.examples_stage import nothing_left
from raypipe.training.guard import Dropped
from raypipe.training.negatives import Short


@pytest.mark.parametrize(
    ("short", "dropped", "counted"),
    [
        ({"without_negatives": 2}, {}, "left out: 2 relevant passages with too few negatives"),
        ({"beyond_runs": 1}, {}, "1 relevant passages below negatives.relevant_last in every run"),
        ({"without_teacher": 2, "negatives_without_teacher": 9}, {},
         "2 relevant passages without a teacher's score, 9 negatives without a teacher's score"),
        ({"lists": 3}, {}, "3 unlabelled lists of queries with too few passages"),
        ({}, {"same_query": 4, "triples": 5},
         "dropped 4 training queries that are evaluation queries, and with them every evaluation "
         "pair (5 triples)"),
    ],
)  # fmt: skip
def test_that_no_example_is_left_is_told_with_what_was_left_out(short, dropped, counted):
    facts = {"examples": 0, "passages": 5, "queries": 0, "short": vars(Short(**short)),
             "dropped": {**vars(Dropped(**dropped))}, "samples": []}  # fmt: skip
    del facts["dropped"]["samples"]
    told = nothing_left(wanted(), "docs", facts)
    assert told.startswith(
        "train.docs: no example is left of the collection c, queries q.tsv, grades of 1 or higher "
        "in q.txt, the first 9 of first: train: docs: 0 examples of 5 passages over 0 queries"
    )
    assert counted in told and "Widen what leaves most out" in told


@pytest.mark.parametrize(
    ("changed", "made_from"),
    [
        ({"qrels": None, "triples": "t.tsv"}, "triples t.tsv, the first 9 of first"),
        ({"min_grade": 2}, "grades of 2 or higher in q.txt, the first 9 of first"),
        (
            {"negatives": {"runs": ["a", "b"]}},
            "grades of 1 or higher in q.txt, the first 9 of a, b",
        ),
    ],
)
def test_what_a_set_is_made_from_is_told_with_its_settings(changed, made_from):
    facts = {"examples": 0, "passages": 5, "queries": 0, "short": vars(Short()),
             "dropped": {**vars(Dropped())}, "samples": []}  # fmt: skip
    del facts["dropped"]["samples"]
    told = nothing_left(wanted(**changed), "docs", facts)
    assert f"is left of the collection c, queries q.tsv, {made_from}: train: docs: 0 exam" in told
