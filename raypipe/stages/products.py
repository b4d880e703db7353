"""torch's products for exact search: each block on one thread, as many blocks as threads."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from threading import local

import numpy as np
import torch
from numpy.typing import NDArray

from raypipe.engines.exact_scores import Floats, Multiply, product_error, upper_norms

BF16_UNIT = 2.0**-8
"""A value is rounded to bfloat16, which has 8 bits, by at most this share of it."""


class TorchProducts:
    """torch's float32 products, about 10% faster than numpy's, and casts 2-3 times as fast.

    Measured on one core with AVX512 (tests/benchmarks). Several blocks on one thread each need
    no thread to wait for another, as the threads of one product do.
    """

    rounding = 0.0

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

    def widen(self, halves: NDArray[np.float16], out: Floats) -> None:
        """fp32 of these values; infinities and NaN stay what they are."""
        if halves.flags.writeable:
            stored = torch.from_numpy(halves)
        else:  # torch warns of read-only memory, as mapped files are; this tensor is only read
            halves = np.ascontiguousarray(halves)
            memory = (ctypes.c_char * halves.nbytes).from_address(halves.ctypes.data)
            stored = torch.frombuffer(memory, dtype=torch.float16).view(halves.shape)
        torch.from_numpy(out).copy_(stored)

    def multiply(self, queries: Floats) -> Multiply:
        """The products of queries and vectors."""
        asked = torch.from_numpy(queries)

        def multiplied(vectors: Floats, out: Floats) -> float:
            torch.mm(asked, torch.from_numpy(vectors).T, out=torch.from_numpy(out))
            return 0.0

        return multiplied

    def error(
        self, queries: Floats, norms: NDArray[np.float64], *, longest: float, moved: float
    ) -> NDArray[np.float64]:
        """The largest error of a product."""
        return product_error(queries.shape[1]) * longest * norms


class Bf16Products(TorchProducts):
    """torch's products of bfloat16, more than twice as fast where a CPU multiplies them."""

    rounding = BF16_UNIT
    """The products are bfloat16 too, each rounded once, from a sum in float32."""

    def multiply(self, queries: Floats) -> Multiply:
        """Products in bfloat16: queries and vectors are rounded to bfloat16 before."""
        asked, own = torch.from_numpy(queries).bfloat16(), local()

        def multiplied(vectors: Floats, out: Floats) -> float:
            if getattr(own, "of", None) != vectors.shape:
                own.of = vectors.shape
                own.vectors = torch.empty(vectors.shape, dtype=torch.bfloat16)
                own.lost = torch.empty(vectors.shape)
                own.products = torch.empty(out.shape, dtype=torch.bfloat16)
            given = torch.from_numpy(vectors)
            own.vectors.copy_(given)
            torch.mm(asked, own.vectors.T, out=own.products)
            torch.from_numpy(out).copy_(own.products)
            torch.sub(given, own.vectors, out=own.lost)
            return float(upper_norms(own.lost.numpy()).max())

        return multiplied

    def error(
        self, queries: Floats, norms: NDArray[np.float64], *, longest: float, moved: float
    ) -> NDArray[np.float64]:
        """The largest error of a product.

        For a query q and a passage p, rounded to q' and p': |q' p' - q p| <= |q' - q| |p'| + |q|
        |p' - p|, with |p'| <= |p| + |p' - p|. The sums in float32 are off as in `product_error`,
        of the rounded factors; twice that, because some CPUs do not round bfloat16's sums to the
        nearest.
        """
        rounded = torch.from_numpy(queries).bfloat16().float().numpy()
        lost = upper_norms(rounded - queries)
        in_sums = 2 * product_error(queries.shape[1]) * (norms + lost) * (longest + moved)
        return lost * (longest + moved) + norms * moved + in_sums


def coarse_products(threads: int) -> Bf16Products | None:
    """Products in bfloat16, or None where this machine's CPU does not multiply them."""
    from raypipe.models.machine.precision import able

    return Bf16Products(threads) if "bf16" in able("cpu") else None
