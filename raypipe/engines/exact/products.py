"""What exact search computes in float32: fp16 as float32, and products; by numpy or another."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from raypipe.engines.exact.score import widen

Floats = NDArray[np.float32]
Multiply = Callable[[Floats, Floats], float]
"""Writes the inner products of the queries and vectors [n, D] into [Q, n]; by one thread.

It returns how far the vectors were moved by rounding them: the length of the largest difference.
"""


class Products(Protocol):
    """A library of matrix products. Scores are exact, so which one it is changes no result."""

    @property
    def threads(self) -> int:
        """The number of blocks in work at a time, each on a thread of its own."""

    @property
    def rounding(self) -> float:
        """By what share of itself a finished product may be rounded, in keeping with order."""

    def ready(self) -> AbstractContextManager[None]:
        """A context in which the others may be called, by any thread."""

    def widen(self, halves: NDArray[np.float16], out: Floats) -> None:
        """Write fp16 [n, D] as float32 into contiguous `out` [n, D].

        Infinities and NaN become a NaN, or 65536 or more in magnitude.
        """

    def multiply(self, queries: Floats) -> Multiply:
        """The multiplication with these queries [Q, D], fp16 values, summed in float32."""

    def error(
        self, queries: Floats, norms: NDArray[np.float64], *, longest: float, moved: float
    ) -> NDArray[np.float64]:
        """[Q]: by how much products may be off before `rounding`.

        Args:
            queries: [Q, D].
            norms: [Q], not below the queries' lengths.
            longest: not below the length of any vector.
            moved: the largest number that their multiplication returned.
        """


class NumpyProducts:
    """numpy's products; its library decides about threads, so blocks are taken one by one."""

    threads = 1
    rounding = 0.0

    def ready(self) -> AbstractContextManager[None]:
        """See Products; nothing to prepare."""
        return nullcontext()

    def widen(self, halves: NDArray[np.float16], out: Floats) -> None:
        """See Products."""
        widen(halves, out)

    def multiply(self, queries: Floats) -> Multiply:
        """See Products."""

        def multiplied(vectors: Floats, out: Floats) -> float:
            np.matmul(queries, vectors.T, out=out)
            return 0.0

        return multiplied

    def error(
        self, queries: Floats, norms: NDArray[np.float64], *, longest: float, moved: float
    ) -> NDArray[np.float64]:
        """See Products."""
        return product_error(queries.shape[1]) * longest * norms


def product_error(dim: int) -> float:
    """The bound e: a float32 inner product of fp16 vectors is off by at most e |query| |passage|.

    A product of two fp16 values has 22 bits and lies in [2^-48, 2^32]: it is exact in float32.
    The dim - 1 sums, in any order, fused or not, are off by at most (dim - 1) u / (1 - (dim - 1)
    u), u = 2^-24, times the sum of magnitudes, which is at most |query| |passage|. Five more u
    cover the rounding of the final score and of this bound.

    Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.1.
    """
    units = (dim + 4) * 2.0**-24
    return units / (1 - units)
