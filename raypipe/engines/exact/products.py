"""What exact search computes in float32: fp16 as float32, and products; by numpy or another."""

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from raypipe.engines.exact.score import widen


class Products(Protocol):
    """A library of matrix products. Scores are exact, so which one it is changes no result."""

    @property
    def threads(self) -> int:
        """The number of blocks in work at a time, each on a thread of its own."""

    def ready(self) -> AbstractContextManager[None]:
        """A context in which the two others may be called, by any thread."""

    def widen(self, halves: NDArray[np.float16], out: NDArray[np.float32]) -> None:
        """Write fp16 [n, D] as float32 into contiguous `out` [n, D].

        Infinities and NaN become a NaN, or 65536 or more in magnitude.
        """

    def multiply(
        self, queries: NDArray[np.float32], vectors: NDArray[np.float32], out: NDArray[np.float32]
    ) -> None:
        """Write the inner products of [Q, D] and [n, D], summed in float32, into `out` [Q, n]."""


class NumpyProducts:
    """numpy's products; its library decides about threads, so blocks are taken one by one."""

    threads = 1

    def ready(self) -> AbstractContextManager[None]:
        """See Products; nothing to prepare."""
        return nullcontext()

    def widen(self, halves: NDArray[np.float16], out: NDArray[np.float32]) -> None:
        """See Products."""
        widen(halves, out)

    def multiply(
        self, queries: NDArray[np.float32], vectors: NDArray[np.float32], out: NDArray[np.float32]
    ) -> None:
        """See Products."""
        np.matmul(queries, vectors.T, out=out)
