"""The examples of each step: one order by (seed, step), for any number of workers.

The order of an epoch is a pseudorandom permutation that is computed, not stored: 400M examples take
no memory, and a restart needs only the step's number.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]
UInt64 = NDArray[np.uint64]
ROUNDS = 6


def permuted(positions: Int64, *, size: int, seed: int, epoch: int) -> Int64:
    """The images of these positions, int64, under a permutation of 0..size-1, in their order.

    It is a Feistel network over the smallest even number of bits that holds `size`. A value outside
    is mapped again (Black & Rogaway 2002, cycle walking), at most 4 times on average.
    """
    half = max(1, -(-(size - 1).bit_length() // 2))
    mask = np.uint64((1 << half) - 1)
    shift = np.uint64(half)
    keys = _keys(seed, epoch)
    found = positions.astype(np.uint64)
    todo = np.ones(len(found), bool)
    while todo.any():
        left, right = found[todo] >> shift, found[todo] & mask
        for key in keys:
            left, right = right, left ^ (_mixed(right ^ key) & mask)
        found[todo] = (left << shift) | right
        todo &= found >= size
    return found.astype(np.int64)


def _keys(seed: int, epoch: int) -> UInt64:
    digest = hashlib.sha512(f"raypipe sampler {seed} {epoch}".encode()).digest()
    return np.frombuffer(digest, "<u8")[:ROUNDS].astype(np.uint64)


def _mixed(x: UInt64) -> UInt64:
    """splitmix64's finaliser (Steele et al. 2014): every bit of x reaches every bit."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@dataclass(frozen=True, slots=True)
class Sampler:
    """Global batches over `num_examples`; every epoch takes each example once."""

    num_examples: int
    batch_examples: int
    seed: int

    def batch(self, step: int) -> Int64:
        """The examples of a step, int64 [batch_examples]; batches run on across epochs."""
        places = np.arange(self.batch_examples, dtype=np.int64) + step * self.batch_examples
        epochs, positions = np.divmod(places, self.num_examples)
        out = np.empty_like(places)
        for epoch in np.unique(epochs):
            own = epochs == epoch
            out[own] = permuted(
                positions[own], size=self.num_examples, seed=self.seed, epoch=int(epoch)
            )
        return out
