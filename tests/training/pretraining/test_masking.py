"""The masking rule by hand and by its shares."""

import numpy as np
import pytest
from masked_texts import CLS, MASK, RULE, SEP

from raypipe.text.inputs import Inputs
from raypipe.training.pretrain import NOT_PREDICTED, Rule, masked


def inputs(*sizes):
    """[CLS] with pieces 10, 11, ... [SEP], one input for each size."""
    texts = [[CLS, *range(10, 10 + size), SEP] for size in sizes]
    lengths = np.array([len(text) for text in texts], np.int64)
    flat = np.array([token for text in texts for token in text], np.int64)
    return Inputs(flat, flat * 0, flat * 0, lengths)


@pytest.mark.parametrize(
    ("size", "count"), [(1, 1), (3, 1), (9, 1), (10, 2), (16, 2), (17, 3), (100, 15)]
)
def test_an_inputs_share_is_rounded_and_at_least_one(size, count):
    _, targets = masked(inputs(size), np.array([0]), RULE, seed=0, step=1)
    assert (targets != NOT_PREDICTED).sum() == count


def test_special_tokens_are_never_predicted_and_other_places_never_change():
    given = inputs(40, 7, 90)
    given.ids[20] = SEP  # between two passages
    for step in range(1, 30):
        ids, targets = masked(given, np.array([4, 9, 5]), RULE, seed=3, step=step)
        predicted = targets != NOT_PREDICTED
        assert (targets[predicted] == given.ids[predicted]).all()
        assert not np.isin(given.ids[predicted], [CLS, SEP]).any()
        assert (ids[~predicted] == given.ids[~predicted]).all()


def test_of_the_predicted_pieces_80_percent_are_masked_10_random_and_10_stay():
    given = inputs(*[500] * 40)
    rule = Rule(0.15, MASK, 100_000, (CLS, SEP))
    ids, targets = masked(given, np.arange(40), rule, seed=5, step=2)
    predicted = targets != NOT_PREDICTED
    now, before = ids[predicted], given.ids[predicted]
    assert len(now) == 40 * 75
    shares = [(now == MASK).mean(), (now == before).mean()]
    assert shares == pytest.approx([0.8, 0.1], abs=0.02)
    other = now[(now != MASK) & (now != before)]
    assert len(other) / len(now) == pytest.approx(0.1, abs=0.02)
    assert other.max() > 90_000 and other.min() < 10_000, "from the whole vocabulary"
    places = np.flatnonzero(predicted) % 502
    assert places.min() < 20 and places.max() > 480 and 230 < places.mean() < 272


def test_masks_are_a_pure_function_of_seed_step_and_row():
    given = inputs(30, 30, 50)
    rows = np.array([8, 3, 2**40])
    first = masked(given, rows, RULE, seed=1, step=6)
    again = masked(given, rows, RULE, seed=1, step=6)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    alone = masked(inputs(50), rows[2:], RULE, seed=1, step=6)
    assert all(np.array_equal(a[64:], b) for a, b in zip(first, alone, strict=True))
    for seed, step, own in ((2, 6, rows), (1, 7, rows), (1, 6, rows[[1, 0, 2]])):
        assert not np.array_equal(masked(given, own, RULE, seed=seed, step=step)[1], first[1])
    swapped = masked(given, rows[[1, 0, 2]], RULE, seed=1, step=6)[1]
    assert np.array_equal(swapped[:32], first[1][32:64])
