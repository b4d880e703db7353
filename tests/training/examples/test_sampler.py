"""The order of examples: a permutation an epoch, known from seed and step alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raypipe.training.examples.sampler import Sampler, permuted


@given(size=st.integers(1, 700), seed=st.integers(0, 2**40), epoch=st.integers(0, 9))
def test_an_epoch_is_a_permutation(size, seed, epoch):
    found = permuted(np.arange(size), size=size, seed=seed, epoch=epoch)
    assert sorted(found.tolist()) == list(range(size))


def test_400_million_examples_need_no_table():
    size = 397_768_673
    places = np.array([0, 1, 2, size - 2, size - 1])
    found = permuted(places, size=size, seed=1, epoch=0)
    assert len(set(found.tolist())) == 5 and found.min() >= 0 and found.max() < size


def test_neighbours_seeds_and_epochs_give_other_orders():
    def order(**changed):
        return permuted(np.arange(1000), **{"size": 1000, "seed": 1, "epoch": 0, **changed})

    assert (order() != order(seed=2)).mean() > 0.98
    assert (order() != order(epoch=1)).mean() > 0.98
    # Spearman's rank correlation with the identity is that of a random order: within 4 / sqrt(n)
    assert abs(np.corrcoef(order(), np.arange(1000))[0, 1]) < 4 / np.sqrt(1000)


def test_batches_run_on_across_epochs_and_take_every_example_once_in_each():
    sampler = Sampler(num_examples=10, batch_examples=4, seed=5)
    taken = np.concatenate([sampler.batch(step) for step in range(5)])
    assert sorted(taken[:10].tolist()) == list(range(10))
    assert sorted(taken[10:].tolist()) == list(range(10))
    assert taken[:10].tolist() != taken[10:].tolist()


@pytest.mark.parametrize("step", [0, 3, 11])
def test_a_step_is_the_same_whatever_came_before(step):
    first = Sampler(97, 8, seed=3)
    for earlier in range(step):
        first.batch(earlier)
    assert first.batch(step).tolist() == Sampler(97, 8, seed=3).batch(step).tolist()
