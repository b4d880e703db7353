"""Masked batches and their parts."""

import numpy as np
import pytest
from masked_texts import CLS, SEP, make_pretrained, trainee_and_maker

from raypipe.training.pretrain import Chosen


@pytest.fixture(scope="module")
def folder(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("batch") / "model"
    make_pretrained(tiny, folder)
    return folder


@pytest.mark.parametrize("next_sentence", [True, False])
def test_a_batch_has_berts_layout_and_a_part_of_it_its_own_inputs(folder, next_sentence):
    counts = [20, 35, 7, 50, 18]
    _, maker = trainee_and_maker(folder, counts, next_sentence=next_sentence, joined=False)
    places = np.array([3, 0, 2, 5])
    batch = maker.batch(Chosen(np.zeros(4, np.int64), places), 4)
    ends = np.cumsum(batch.inputs.lengths)
    for number, (end, length) in enumerate(zip(ends, batch.inputs.lengths, strict=True)):
        own = slice(end - length, end)
        ids, segments = batch.inputs.ids[own], batch.inputs.segments[own]
        assert ids[0] == CLS and ids[-1] == SEP and length <= 32
        assert batch.inputs.positions[own].tolist() == list(range(length))
        assert (segments == 1).any() == next_sentence and (np.diff(segments) >= 0).all()
        if next_sentence:
            assert ids[np.flatnonzero(segments == 0)[-1]] == SEP
        part = batch.part(np.array([number]))
        assert np.array_equal(part.inputs.ids, ids)
        assert np.array_equal(part.inputs.segments, segments)
        assert np.array_equal(part.targets, batch.targets[own])
        alone = maker.batch(Chosen(np.zeros(1, np.int64), places[number : number + 1]), 4)
        assert np.array_equal(alone.inputs.ids, ids) and np.array_equal(alone.targets, part.targets)
        if next_sentence:
            assert part.follows.tolist() == [batch.follows[number]] == alone.follows.tolist()
        else:
            assert part.follows is None
    assert batch.num_words == sum(batch.part(np.array([n])).num_words for n in range(4))
    both = batch.part(np.array([2, 0]))
    assert both.inputs.lengths.tolist() == batch.inputs.lengths[[2, 0]].tolist()
