"""torch's products for exact search.

On a CPU each block is on one thread, and there are as many blocks as threads. A GPU multiplies
blocks of its own size, one after the other, and selects the candidates too.
"""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import local

import numpy as np
import torch
from numpy.typing import NDArray

from raypipe.engines.exact_candidates import Proposals
from raypipe.engines.exact_scores import (
    FP16_BEYOND,
    Floats,
    Multiply,
    ShardVectors,
    cast,
    cut,
    product_error,
    upper_norms,
    upper_roots,
)

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
        torch.from_numpy(out).copy_(_only_read(halves)[0])

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


def _only_read(halves: NDArray[np.float16]) -> tuple[torch.Tensor, NDArray[np.float16]]:
    """The values as a tensor, and the memory that it reads: torch warns of mapped files."""
    if halves.flags.writeable:
        return torch.from_numpy(halves), halves
    halves = np.ascontiguousarray(halves)
    memory = (ctypes.c_char * halves.nbytes).from_address(halves.ctypes.data)
    return torch.frombuffer(memory, dtype=torch.float16).view(halves.shape), halves


VALUES_ON_DEVICE = 1 << 28
"""Products on a device at a time: 1 GiB."""


class DeviceProducts(TorchProducts):
    """float32 products on a device, and the largest of each query selected there.

    The stored values are copied to the device as they are and widened there.
    """

    def __init__(self, device: str, threads: int = 1, *, values: int = VALUES_ON_DEVICE) -> None:
        """A pass on `device`, with so many products at a time; the CPU's work has `threads`."""
        super().__init__(threads)
        self._device, self._values = device, values

    def candidates(
        self,
        queries: Floats,
        shards: Sequence[ShardVectors],
        *,
        kept: int,
        beat: Callable[[], None],
    ) -> Proposals:
        """The `kept` rows of each query with the largest products; at least as many must be given.

        Blocks are halved until they fit into the device's memory.

        Raises:
            InputError: a row holds a NaN or an infinity; the message names the rows.
            torch.OutOfMemoryError: not even one row fits.
        """
        while True:
            try:
                return self._candidates(queries, shards, kept=kept, beat=beat)
            except torch.OutOfMemoryError:
                if self._values <= max(queries.shape):
                    raise
            torch.cuda.empty_cache()  # here the traceback, which holds the tensors, is gone
            self._values //= 2

    @torch.inference_mode()
    def _candidates(
        self,
        queries: Floats,
        shards: Sequence[ShardVectors],
        *,
        kept: int,
        beat: Callable[[], None],
    ) -> Proposals:
        on_device = torch.from_numpy(queries).to(self._device)
        products = on_device.new_empty(len(queries), 0)
        rows = on_device.new_empty(len(queries), 0, dtype=torch.int64)
        longest = 0.0
        for parts in cut(shards, max(1, self._values // max(queries.shape))):
            beat()
            vectors = torch.cat([self._widened(part.vectors) for part in parts])
            longest = max(longest, self._longest(vectors, parts))
            numbers = np.concatenate([np.arange(part.first_row, part.stop_row) for part in parts])
            best, places = (on_device @ vectors.T).topk(min(kept, len(vectors)), sorted=False)
            products = torch.cat([products, best], 1)
            rows = torch.cat([rows, torch.from_numpy(numbers).to(self._device)[places]], 1)
            if rows.shape[1] > kept:
                products, places = products.topk(kept, sorted=False)
                rows = rows.gather(1, places)
        rows, order = rows.sort(dim=1)
        products = products.gather(1, order)
        return Proposals(
            rows=rows.cpu().numpy(),
            products=products.cpu().numpy(),
            last=products.amin(dim=1).cpu().numpy(),
            norm=longest,
            moved=0.0,
        )

    def _widened(self, halves: NDArray[np.float16]) -> torch.Tensor:
        stored, _memory = _only_read(halves)
        return stored.to(self._device).float()

    def _longest(self, vectors: torch.Tensor, parts: Sequence[ShardVectors]) -> float:
        """The length of the longest vector, rounded up; refuses values that are not finite."""
        squares = vectors.square().sum(dim=1).amax().reshape(1).cpu().numpy()
        longest = float(upper_roots(squares, vectors.shape[1])[0])
        if not longest < FP16_BEYOND:  # no other row can hold such a value
            cast(parts, np.empty(tuple(vectors.shape), np.float32))
        return longest


def coarse_products(device: str, threads: int) -> DeviceProducts | Bf16Products | None:
    """A pass before that in float32 on the CPU: on a GPU, or in bfloat16.

    None where this machine's CPU does not multiply bfloat16.
    """
    from raypipe.models.machine.precision import able

    if device == "cuda":
        return DeviceProducts(device, threads)

    return Bf16Products(threads) if "bf16" in able("cpu") else None
