"""Scores of documents from those of their passages, by the equations, and the order of the run."""

import numpy as np
import pyarrow as pa
import pytest

from raypipe import schema
from raypipe.errors import InputError
from raypipe.ranking.documents import (
    document_run,
    document_scores,
    log_odds,
    passage_run,
    probabilities,
)
from raypipe.ranking.order import ranks


def scores_of(lines, method, k=4):
    """Lines (query, document, window, score) -> {(query, document): score}."""
    columns = [np.array([line[i] for line in lines], np.int64) for i in range(3)]
    scores = np.array([line[3] for line in lines], np.float32)
    queries, documents, found = document_scores(*columns, scores, method=method, k=k)
    assert found.dtype == np.float32
    return dict(
        zip(zip(queries.tolist(), documents.tolist(), strict=True), found.tolist(), strict=True)
    )


LINES = [
    (0, 7, 2, 5.0),
    (0, 3, 1, 4.0),
    (0, 7, 0, 1.0),
    (0, 7, 3, 3.0),
    (0, 7, 1, 2.0),
    (0, 7, 4, -6.0),
    (1, 7, 9, 8.0),
]


@pytest.mark.parametrize(
    ("method", "of_seven"),
    [
        ("maxp", 5.0),
        ("firstp", 1.0),
        ("sump", 5.0),
        ("avgp", 1.0),
        ("k-max-avgp", (5 + 3 + 2 + 1) / 4),
    ],
)
def test_each_method_over_the_passages_of_a_document(method, of_seven):
    assert scores_of(LINES, method) == {(0, 3): 4.0, (0, 7): of_seven, (1, 7): 8.0}


def test_k_max_averages_the_k_best_and_of_fewer_passages_all():
    lines = [(0, 1, 0, 1.0), (0, 1, 1, 4.0), (0, 2, 0, 3.0), (0, 2, 1, 2.0), (0, 2, 2, -9.0)]
    assert scores_of(lines, "k-max-avgp", k=2) == {(0, 1): 2.5, (0, 2): 2.5}
    assert scores_of(lines[:2], "k-max-avgp", k=4) == {(0, 1): 2.5}
    assert scores_of(lines, "k-max-avgp", k=1) == scores_of(lines, "maxp")


def test_firstp_takes_the_first_passage_that_the_run_has():
    assert scores_of([(0, 1, 5, 1.0), (0, 1, 3, 0.5)], "firstp") == {(0, 1): 0.5}


@pytest.mark.parametrize("method", ["maxp", "firstp", "sump", "avgp", "k-max-avgp"])
def test_the_order_of_the_lines_changes_no_bit(method):
    rng = np.random.default_rng(3)
    lines = [
        (int(q), int(d), w, float(np.float32(rng.normal())))
        for q in range(3)
        for d in range(5)
        for w in range(int(rng.integers(1, 9)))
    ]
    expected = scores_of(lines, method, k=3)
    for _ in range(5):
        assert scores_of([lines[i] for i in rng.permutation(len(lines))], method, k=3) == expected


def test_a_score_that_is_not_finite_is_refused():
    with pytest.raises(InputError, match="not finite"):
        scores_of([(0, 1, 0, float("nan"))], "maxp")


def run_of(lines):
    """Lines (query, passage, score, scored_by), in order, as schema.RUN."""
    queries, rows, scores, names = zip(*lines, strict=True)
    queries = np.array(queries, np.int32)
    scores = np.array(scores, np.float32)
    return pa.table([queries, rows, ranks(queries), scores, names], schema=schema.RUN)


def documents_of(lines, documents, windows=None, **settings):
    settings = {"method": "maxp", "scored_by": "d", **settings}
    documents = np.array(documents)
    windows = np.zeros(len(documents), np.int64) if windows is None else np.array(windows)
    found = document_run(run_of(lines), documents, windows, **settings)
    assert found.schema == schema.RUN
    return [tuple(row.values()) for row in found.to_pylist()]


def test_documents_are_ordered_by_score_then_row_and_cut_at_the_depth():
    lines = [(0, 9, 3.0, "b"), (0, 5, 2.0, "b"), (0, 1, 2.0, "b"), (2, 4, 1.0, "b")]
    documents = [4, 6, 2, 6]
    assert documents_of(lines, documents) == [
        (0, 4, 1, 3.0, "d"),
        (0, 2, 2, 2.0, "d"),
        (0, 6, 3, 2.0, "d"),
        (2, 6, 1, 1.0, "d"),
    ]
    assert [row[:3] for row in documents_of(lines, documents, depth=1)] == [(0, 4, 1), (2, 6, 1)]


def test_the_documents_of_a_tail_come_below_whatever_their_scores():
    lines = [
        (0, 1, 0.5, "mono"),
        (0, 2, 0.2, "mono"),
        (0, 3, 30.0, "bm25"),
        (0, 4, 20.0, "bm25"),
        (1, 3, 9.0, "bm25"),
    ]
    # Document 8 has a passage in both blocks: only that of the first counts.
    assert documents_of(lines, [8, 9, 7, 8, 7], method="sump") == [
        (0, 8, 1, 0.5, "d"),
        (0, 9, 2, np.float32(0.2), "d"),
        (0, 7, 3, 30.0, "bm25"),
        (1, 7, 1, 9.0, "d"),
    ]
    first_two = documents_of(lines, [8, 9, 7, 8, 7], method="sump", depth=2)
    assert [row[:3] for row in first_two] == [(0, 8, 1), (0, 9, 2), (1, 7, 1)]


def test_scores_are_converted_in_the_first_block_alone():
    lines = [(0, 1, 0.0, "mono"), (0, 2, 0.0, "bm25")]
    found = documents_of(lines, [1, 2], convert=probabilities)
    assert [row[3] for row in found] == [0.5, 0.0]


def test_the_mean_of_probabilities_orders_otherwise_than_that_of_raw_scores():
    raw = [4.0, -4.0, -4.0, -4.0, -1.5, -1.5, -1.5, -1.5]
    lines = [(0, row, score, "m") for row, score in enumerate(raw)]
    documents, windows = [1] * 4 + [2] * 4, [0, 1, 2, 3] * 2
    by_raw = documents_of(lines, documents, windows, method="avgp")
    by_p = documents_of(lines, documents, windows, method="avgp", convert=probabilities)
    assert [(row[1], row[3]) for row in by_raw] == [(2, -1.5), (1, -2.0)]
    assert [row[1] for row in by_p] == [1, 2]
    assert [row[3] for row in by_p] == pytest.approx([0.2590, 0.1824], abs=1e-4)


def test_an_empty_run_has_no_documents():
    none = np.empty(0, np.int64)
    empty = schema.RUN.empty_table()
    assert document_run(empty, none, none, method="avgp", scored_by="d").num_rows == 0


def test_log_odds_undo_the_log_softmax_of_two_units_to_float32():
    margins = np.array([-200.0, -30.0, -1.5, 0.0, 1e-3, 4.0, 17.0, 60.0, 87.0])
    stored = (-np.logaddexp(0.0, -margins)).astype(np.float32)
    np.testing.assert_allclose(log_odds(stored), margins, rtol=2e-7, atol=2e-7)
    assert log_odds(np.zeros(1, np.float32)) == pytest.approx(103.28, abs=0.01)
    assert log_odds(np.array([-800.0], np.float32)) == pytest.approx(-800.0)


def test_probabilities_are_those_of_the_sigmoid():
    found = probabilities(np.array([0.0, 4.0, -1000.0], np.float32))
    np.testing.assert_allclose(found, [0.5, 1 / (1 + np.exp(-4.0)), 0.0])


def test_the_passages_of_documents_keep_the_documents_order_and_scores():
    run = run_of([(0, 5, 2.0, "r"), (0, 3, 1.0, "r"), (4, 3, 7.0, "r")])
    places, passages = np.array([0, 0, 1, 2]), np.array([8, 9, 2, 2])
    found = passage_run(run, places, passages, scored_by="p")
    assert [tuple(row.values()) for row in found.to_pylist()] == [
        (0, 8, 1, 2.0, "p"),
        (0, 9, 2, 2.0, "p"),
        (0, 2, 3, 1.0, "p"),
        (4, 2, 1, 7.0, "p"),
    ]
