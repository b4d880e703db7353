"""The order of examples: a permutation an epoch, known from seed and step alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raypipe.training.examples import Sampler, _mixed, permuted


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


def test_two_seeds_give_other_batches_of_the_same_examples():
    one, other = (Sampler(100, 10, seed=seed) for seed in (1, 2))
    taken = [np.concatenate([s.batch(step) for step in range(10)]) for s in (one, other)]
    assert sorted(taken[0].tolist()) == sorted(taken[1].tolist()) == list(range(100))
    assert (taken[0] != taken[1]).sum() > 80
    assert one.batch(0).tolist() == Sampler(100, 10, seed=1).batch(0).tolist()


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 16, 17, 100, 257])
def test_an_epoch_is_a_permutation_and_another_one_each_time(size):
    positions = np.arange(size)
    first = permuted(positions, size=size, seed=1, epoch=0)
    assert sorted(first.tolist()) == list(range(size))
    turned = permuted(positions[::-1].copy(), size=size, seed=1, epoch=0)
    assert turned.tolist() == first.tolist()[::-1]
    if size > 10:
        others = [permuted(positions, size=size, seed=s, epoch=e) for s, e in ((1, 1), (2, 0))]
        assert all(other.tolist() != first.tolist() for other in others)


def test_batches_run_on_across_epochs():
    sampler = Sampler(num_examples=5, batch_examples=3, seed=7)
    taken = [row for step in range(5) for row in sampler.batch(step).tolist()]
    for epoch in range(3):
        own = taken[5 * epoch : 5 * epoch + 5]
        assert own == permuted(np.arange(5), size=5, seed=7, epoch=epoch).tolist()
    large = Sampler(num_examples=2, batch_examples=7, seed=7).batch(0)
    assert len(large) == 7 and sorted(large[:2].tolist()) == sorted(large[2:4].tolist()) == [0, 1]


def test_bits_are_mixed_as_splitmix64_does():
    """Its first two outputs from the state 0: the state is a multiple of the golden gamma."""
    gamma = 0x9E3779B97F4A7C15
    states = np.array([gamma, 2 * gamma % 2**64], np.uint64)
    assert _mixed(states).tolist() == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4]
