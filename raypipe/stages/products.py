"""torch's products for exact search: each block on one thread, as many blocks as threads."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray


class TorchProducts:
    """torch's float32 products, about 10% faster than numpy's, and casts 2-3 times as fast.

    Measured on one core with AVX512 (docs/benchmarks.md). Several blocks on one thread each need
    no thread to wait for another, as the threads of one product do.
    """

    def __init__(self, threads: int = 1) -> None:
        self.threads = threads

    @contextmanager
    def ready(self) -> Iterator[None]:
        """One thread a product, in full float32; the caller's settings are restored."""
        threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
        torch.set_num_threads(1)
        torch.set_float32_matmul_precision("highest")
        try:
            yield
        finally:
            torch.set_num_threads(threads)
            torch.set_float32_matmul_precision(precision)

    def widen(self, halves: NDArray[np.float16], out: NDArray[np.float32]) -> None:
        """See Products; infinities and NaN stay what they are."""
        if halves.flags.writeable:
            stored = torch.from_numpy(halves)
        else:  # torch warns of read-only memory, as mapped files are; this tensor is only read
            halves = np.ascontiguousarray(halves)
            memory = (ctypes.c_char * halves.nbytes).from_address(halves.ctypes.data)
            stored = torch.frombuffer(memory, dtype=torch.float16).view(halves.shape)
        torch.from_numpy(out).copy_(stored)

    def multiply(
        self, queries: NDArray[np.float32], vectors: NDArray[np.float32], out: NDArray[np.float32]
    ) -> None:
        """See Products."""
        torch.mm(torch.from_numpy(queries), torch.from_numpy(vectors).T, out=torch.from_numpy(out))
