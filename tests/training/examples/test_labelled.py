"""Labelled candidates by hand."""

import numpy as np

from raypipe.training.negatives import TrainingRun, labelled_examples


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
