"""Labelled candidates by hand."""

import numpy as np
import pytest
from training_texts import wanted

from raypipe.training.examples_stage import nothing_left
from raypipe.training.guard import Dropped
from raypipe.training.negatives import Short, TrainingRun, labelled_examples


def ranking(*lines):
    """Lines of query, passage, rank."""
    queries, passages, ranks = (np.array(column) for column in zip(*lines, strict=True))
    scores = np.zeros(len(ranks), np.float32)
    return TrainingRun(queries.astype(np.int32), passages, ranks.astype(np.int32), scores)


RUN = ranking((0, 7, 1), (0, 5, 2), (0, 9, 3), (1, 5, 1), (1, 8, 2), (3, 5, 1))


def lines_of(examples):
    columns = (examples.passage_rows, examples.runs, examples.ranks, examples.labels)
    flat = [column[:, 0].tolist() for column in columns]
    return list(zip(examples.query_rows.tolist(), *flat, strict=True))


def test_each_first_candidate_is_an_example_with_its_label():
    found = labelled_examples({0: [5, 6]}, {0: {5, 6}}, [RUN], 2, set())
    assert lines_of(found) == [
        (0, 7, 0, 1, 0.0),
        (0, 5, 0, 2, 1.0),
        (1, 5, 0, 1, 0.0),  # relevant for another query alone
        (1, 8, 0, 2, 0.0),
        (3, 5, 0, 1, 0.0),
    ]
    assert found.num_passages == 1 and found.labels.dtype == np.float32
    assert found.passage_rows.dtype == np.int32 and found.teacher is None


def test_a_candidate_with_a_grade_too_low_to_be_relevant_is_left_out():
    found = labelled_examples({0: [5]}, {0: {5, 7}, 1: {8}}, [RUN], 9, set())
    assert [line[:2] for line in lines_of(found)] == [(0, 5), (0, 9), (1, 5), (3, 5)]


def test_a_refused_query_has_no_examples():
    found = labelled_examples({0: [5], 1: [8]}, {0: {5}, 1: {8}}, [RUN], 9, {0, 3})
    assert lines_of(found) == [(1, 5, 0, 1, 0.0), (1, 8, 0, 2, 1.0)]


def test_a_candidate_of_two_runs_is_one_example_of_the_first():
    other = ranking((0, 9, 1), (0, 4, 2), (2, 1, 1))
    found = labelled_examples({}, {}, [RUN, other], 2, set())
    assert [line[:4] for line in lines_of(found)] == [
        (0, 7, 0, 1), (0, 5, 0, 2), (0, 9, 1, 1), (0, 4, 1, 2),
        (1, 5, 0, 1), (1, 8, 0, 2), (2, 1, 1, 1), (3, 5, 0, 1),
    ]  # fmt: skip


def test_no_candidates_are_no_examples():
    assert labelled_examples({0: [5]}, {0: {5}}, [RUN], 9, {0, 1, 3}).num_examples == 0


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
