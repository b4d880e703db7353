"""Batches by hand on a few numbers."""

from dataclasses import replace

import numpy as np
from training_texts import ONE, TWO, Texts, keys, pair_conventions, pieces, source

from raypipe.models.folder.settings import Conventions
from raypipe.text.inputs import Layout
from raypipe.training.batch import ExampleSource, gathered, pair_inputs_of, read_batch, text_counts


def test_a_batch_reads_examples_by_number_over_all_sources():
    batch = read_batch([ONE, TWO], np.array([4, 1, 2]))
    assert (batch.num_examples, batch.num_passages) == (3, 2)
    assert pieces(batch.query) == [[1000], [10, 11], [20, 21, 22]]
    assert pieces(batch.passage) == [
        [1100, 1101], [1130, 1131, 1132, 1133], [110], [], [130, 131, 132, 133], [100, 101],
    ]  # fmt: skip
    assert batch.teacher[0].tolist() == [2.0, -1.0] and np.isnan(batch.teacher[1:]).all()
    assert batch.positive.tolist() == [
        [True, False, False, False, False, False],
        [False, False, True, False, False, True],  # row 0 is known as relevant for query 1 too
        [False, False, False, False, True, False],
    ]
    alone = read_batch([ONE], np.array([0, 2, 0]))
    assert alone.teacher is None
    # The same example twice, and passage 0 again in example 2.
    assert alone.positive[0].tolist() == [True, False, False, True, True, False]


WIDE = source([0, 2], [[0, 1, 3], [3, 2, 0]], 0)


def test_a_mono_reads_each_passage_and_the_first_is_relevant():
    batch = read_batch([WIDE], np.array([0, 1]))
    found = pair_inputs_of(batch, pair_conventions(), Layout(1, (2,), 2, (0, 1)))
    assert found.per_example == 3 and found.targets.tolist() == [1, 0, 0, 1, 0, 0]
    assert pieces(found.query) == [[0]] * 3 + [[20, 21]] * 3
    # Room for 8 - 3 pieces: 4 beside a query of one, 3 beside a query cut to two.
    assert [pieces(p) for p in found.passages] == [
        [[100, 101], [110], [130, 131, 132, 133], [130, 131, 132], [], [100, 101]]
    ]
    assert found.lengths.tolist() == [6, 5, 8, 8, 5, 7]


def test_a_labelled_passage_has_its_label_as_target():
    alone = source([0, 2, 1], [[3], [0], [1]], 0, relevant=keys((0, 3)))
    labels = np.array([[1], [0], [0]], np.float32)
    labelled = ExampleSource(replace(alone.examples, labels=labels), alone.queries, alone.passages)
    batch = read_batch([labelled, labelled], np.array([5, 3, 1]))
    assert batch.labels.tolist() == [[0], [1], [0]]
    found = pair_inputs_of(batch, pair_conventions(), Layout(1, (2,), 2, (0, 1)))
    assert found.per_example == 1 and found.targets.tolist() == [0, 1, 0]
    assert pieces(found.query) == [[10, 11], [0], [20, 21]]


def test_a_duo_reads_the_relevant_one_against_each_other_in_both_orders():
    batch = read_batch([WIDE], np.array([0]))
    layout = Layout(1, (2,), 2, (0, 1, 2))
    found = pair_inputs_of(batch, pair_conventions("duo", total_limit=9), layout)
    assert found.per_example == 4 and found.targets.tolist() == [1, 0, 1, 0]
    first, second = (pieces(p) for p in found.passages)
    # 9 - 4 - 1 pieces of the query: 2 of each passage.
    assert first == [[100, 101], [110], [100, 101], [130, 131]]
    assert second == [[110], [100, 101], [130, 131], [100, 101]]
    assert found.lengths.tolist() == [8, 8, 9, 9]


def test_an_encoder_keeps_so_many_pieces_of_each_side():
    batch = read_batch([WIDE], np.array([1]))
    conventions = Conventions(
        pooling="mean", normalise=False, query_segment=0, passage_segment=1,
        query_limit=2, passage_limit=3,
    )  # fmt: skip
    query, passage = text_counts(batch, conventions)
    assert query.tolist() == [2] and passage.tolist() == [3, 0, 2]


def test_first_stages_and_unlabelled_lists_of_some_sources_reach_the_batch():
    drawn = replace(
        ONE.examples,
        runs=np.zeros((3, 2), np.uint8),
        first_stage=np.array([[0.5, 0.0], [1.0, 0.25], [0.0, 0.75]], np.float32),
    )
    unlabelled = ExampleSource(drawn, ONE.queries, ONE.passages)
    batch = read_batch([TWO, unlabelled], np.array([4, 1, 2]))  # TWO has numbers 0 and 1
    assert batch.judged.tolist() == [False, True, False]
    assert batch.first_stage.tolist() == [[0.0, 0.75], [0.0, 0.0], [0.5, 0.0]]
    alone = read_batch([TWO], np.array([0]))
    assert alone.judged is None and alone.first_stage is None


def test_texts_are_gathered_in_order_from_each_source():
    part = gathered(
        [Texts(0, [1, 2, 3]).part, Texts(500, [3, 1]).part],
        np.array([1, 0, 1]),
        np.array([1, 2, 0]),
    )
    assert pieces(part) == [[510], [20, 21, 22], [500, 501, 502]]
