import numpy as np

from raypipe.training.examples.sampler import Sampler


def test_two_seeds_give_other_batches_of_the_same_examples():
    one, other = (Sampler(100, 10, seed=seed) for seed in (1, 2))
    taken = [np.concatenate([s.batch(step) for step in range(10)]) for s in (one, other)]
    assert sorted(taken[0].tolist()) == sorted(taken[1].tolist()) == list(range(100))
    assert (taken[0] != taken[1]).sum() > 80
    assert one.batch(0).tolist() == Sampler(100, 10, seed=1).batch(0).tolist()
