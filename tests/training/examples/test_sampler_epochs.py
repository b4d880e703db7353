import numpy as np
import pytest

from raypipe.training.examples.sampler import Sampler, _mixed, permuted


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
