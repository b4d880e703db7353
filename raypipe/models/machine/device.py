"""A device: how much it computes at once, in which memory, and what determines its last bits.

To serve a model on a CPU, the results of linear layers lie in memory that is used again. Memory of
this size comes fresh from the system each time otherwise, and its pages are zeroed when they are
first touched: a tenth of the CPU time of a forward pass. Rows that do not fit into a device's
memory together are computed in halves.

The last bits depend on the library of matrix products and its mode, read from the library itself.
The numerics class says whether a row's result depends on its neighbours. That depends on the
kernels that the library chooses for a number of rows, and on how it divides the rows among threads.
So it is tested here, bit by bit.
"""

import ctypes
import platform
import re
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raypipe.models.machine.precision import quantised, set_products
from raypipe.models.packed import Body, Linear, Product, linear

LIBRARIES = ("libtorch_cpu.so", "libtorch_cpu.dylib")
ALL, BRANCH, STRICT = -1, 0xFFFF, 0x10000
OFF, AUTO = 1, 2
BRANCHES = {
    2: "AUTO",
    3: "COMPATIBLE",
    4: "SSE2",
    6: "SSSE3",
    7: "SSE4_1",
    8: "SSE4_2",
    9: "AVX",
    10: "AVX2",
    12: "AVX512",
    14: "AVX512_E1",
}
"""Source: the named constants of MKL's mkl_types.h, 2024.2.

On a CPU that is not Intel's, MKL names no kernels: the ones it would choose are `AUTO` too.
"""


@cache
def blas() -> str:
    """Library and mode of products on the CPU: `mkl 2024.2 AVX512_E1,STRICT`, or another vendor.

    The mode is fixed by MKL's first call, which may be this one: MKL_CBWR must be set before.
    """
    vendor = vendor_of(torch.__config__.show())
    return f"{vendor} {mkl_mode()}" if vendor.startswith("mkl") else vendor


def mkl_mode() -> str:
    """MKL's mode for reproducible results that is in force now.

    `AVX2,STRICT` and so on: the kernels, and whether sums have one order for any rows and threads;
    `off (AVX2)` if no mode was set; `AUTO` for kernels that MKL does not name; `unknown` if torch's
    library does not say.
    """
    found = _from_library()
    return "unknown" if found is None else mode_name(*found)


def mode_name(settings: int, auto_branch: int) -> str:
    """The mode in words, from the results of MKL's two functions."""
    branch = settings & BRANCH
    kernels = auto_branch if branch <= AUTO else branch
    name = BRANCHES.get(kernels, f"branch {kernels}")
    if branch <= OFF:
        return f"off ({name})"
    return f"{name},STRICT" if settings & STRICT else name


def vendor_of(build: str) -> str:
    """`mkl 2024.2`, `openblas`, `accelerate`: from the description of torch's build."""
    mkl = re.search(r"Math Kernel Library Version (\S+?)-Product", build)
    if mkl:
        return f"mkl {mkl[1]}"
    named = re.search(r"BLAS_INFO=(\w+)", build)
    if not named:
        return "unknown blas"
    return "openblas" if named[1] == "open" else named[1].lower()


def _from_library() -> tuple[int, int] | None:
    """MKL's settings and the kernels that it would choose itself; None if it cannot be asked."""
    folder = Path(torch.__file__).parent / "lib"
    for path in (folder / name for name in LIBRARIES):
        try:
            library = ctypes.CDLL(str(path))
        except OSError:
            continue
        # MKL is linked into torch, as in its wheels, or is a separate library, as in conda.
        for settings, auto in (
            ("mkl_serv_cbwr_get", "mkl_serv_cbwr_get_auto_branch"),
            ("MKL_CBWR_Get", "MKL_CBWR_Get_Auto_Branch"),
        ):
            if hasattr(library, settings) and hasattr(library, auto):
                return int(getattr(library, settings)(ALL)), int(getattr(library, auto)())
    return None


BUDGET_TOKENS = {"cpu": 2048, "cuda": 32768}
"""Default number of tokens in one forward pass; it changes no byte."""
MOST_TOKENS = {"cpu": 8192, "cuda": 32768}
"""Largest budget: more gains little, and the test of neighbouring rows goes up to this."""

TOKENS_BY_GPU = (
    ("B200", 32768),
    ("H200", 32768),
    ("H100", 32768),
    ("A100", 32768),
    ("T4", 8192),
)
"""Tokens of a pass of fixed shape by a part of the GPU's name, the first one counts: enough that
launching a kernel takes less time than running it. On an H200, BERT-base encodes 1.74, 1.77, 1.84
and 1.82 million tokens a second in passes of 16,384, 32,768, 65,536 and 131,072; other GPUs were
not measured."""
TOKENS_OF_OTHERS = 16384


def tokens_of_pass(device: str) -> int:
    """Tokens of a pass of fixed shape on this machine's `cpu` or `cuda`."""
    if device != "cuda":
        return BUDGET_TOKENS[device]
    name = torch.cuda.get_device_name(0)
    return next((n for part, n in TOKENS_BY_GPU if part in name), TOKENS_OF_OTHERS)


def numerics_class(
    device: str, *, precision: str = "fp32", proven: bool = True, how: str = ""
) -> str:
    """The name of the numerics class here: equal bytes are promised within one class.

    If it is not `proven`, a row's bytes may depend on its neighbours, and equal bytes are not
    promised. Even then the name leaves out the threads: the neighbours alone may differ between
    runs. `how` says what else the last bits depend on.
    """
    if device == "cuda":
        where, library = torch.cuda.get_device_name(0), f"cuda {torch.version.cuda}"
    else:
        where = f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
        library = blas()
    name = f"{where}, torch {torch.__version__}, {library}, {precision}" + (
        f", {how}" if how else ""
    )
    return name if proven else f"{name}, neighbours: unproven"


COMPANY = (1, *range(17, 34), 57, 129, 500, 777, 2048, 4096, 8192, 16384)
"""Numbers of rows to test in one product, up to those of a forward pass, which is tested last.
Without strict mode and with two threads, MKL was seen to split inner sums from 17, 57 or 500 rows
on, and to compute the last one to three rows differently if the number is not a multiple of 6."""
DISTINCT = 37
"""Number of different rows; a test repeats them, so that every position is compared."""


class ProductShape(NamedTuple):
    """The inner and outer sizes of a matrix product, and its dtype."""

    inner: int
    outer: int
    dtype: torch.dtype = torch.float32


@dataclass(frozen=True, slots=True)
class Settled:
    """The number of threads to compute with, and what it guarantees."""

    threads: int
    proven: bool
    """Whether a row's bytes are independent of the rows beside it and of the threads."""


def settle(shapes: frozenset[ProductShape], *, device: str, threads: int, rows: int) -> Settled:
    """The requested threads if rows keep their bytes with them, otherwise one.

    It tests once per process, and sets torch to that number of threads.

    Args:
        shapes: those of the matrix products to test.
        device: cpu or cuda.
        threads: the requested number.
        rows: the largest number in one product: a forward pass's budget of tokens.
    """
    found = _settled(shapes, device, threads, rows)
    torch.set_num_threads(found.threads)
    return found


@cache
def _settled(shapes: frozenset[ProductShape], device: str, threads: int, rows: int) -> Settled:
    return settled(shapes, device=device, threads=threads, rows=rows)


def shapes_of(body: Body, *more: Linear) -> frozenset[ProductShape]:
    """The shapes of the matrix products of every layer, and of the further layers given."""
    parts = (*body.linears, *more)
    return frozenset(ProductShape(w.shape[1], w.shape[0], w.dtype) for w, *_ in parts)


def bert_shapes(hidden: int, intermediate: int) -> frozenset[ProductShape]:
    """`shapes_of` for any BERT of these sizes, fp32."""
    attention = {ProductShape(hidden, 3 * hidden), ProductShape(hidden, hidden)}
    return frozenset(
        attention | {ProductShape(hidden, intermediate), ProductShape(intermediate, hidden)}
    )


def settled(
    shapes: Iterable[ProductShape],
    *,
    device: str,
    threads: int,
    rows: int,
    product: Product = linear,
) -> Settled:
    """`threads` if rows in `product` are independent with them; otherwise one, proven or not."""
    shapes = sorted(shapes, key=str)
    for count in dict.fromkeys((threads, 1)):
        if all(_holds(shape, device, count, rows, product) for shape in shapes):
            return Settled(count, True)
    return Settled(1, False)


@torch.inference_mode()
def _holds(shape: ProductShape, device: str, threads: int, most: int, product: Product) -> bool:
    """Whether rows computed together have the same bytes as alone on one thread."""
    inner, outer, dtype = shape
    draw = torch.Generator().manual_seed(inner * outer)
    weight = torch.randn(outer, inner, generator=draw) * inner**-0.5
    bias = torch.randn(outer, generator=draw)
    weights: Linear
    if dtype == torch.int8:
        weights, dtype = quantised((weight, bias)), torch.float32
    else:
        weights = (weight.to(device, dtype), bias.to(device, dtype))
    rows = torch.randn(DISTINCT, inner, generator=draw).to(device, dtype)
    torch.set_num_threads(1)
    alone = torch.cat([product(row[None], weights) for row in rows])
    torch.set_num_threads(threads)
    for size in (*(size for size in COMPANY if size < most), most):
        which = torch.arange(size, device=device) % DISTINCT
        together = product(rows[which], weights)
        if not torch.equal(together.view(torch.uint8), alone[which].view(torch.uint8)):
            return False
    # Rounded to bf16, other sums show in few values of 100,000: so many different rows are needed.
    many = torch.randn(most, inner, generator=draw).to(device, dtype)
    order = torch.randperm(most, generator=draw).to(device)
    mixed = product(many[order], weights)
    torch.set_num_threads(1)
    return torch.equal(mixed.view(torch.uint8), product(many, weights)[order].view(torch.uint8))


@dataclass(frozen=True, slots=True)
class Place:
    """A device, with the amount that a model computes at once on it, and in which precision."""

    device: str
    """cpu or cuda."""
    budget_tokens: int
    """Tokens in one forward pass; they change no byte."""
    numerics: str
    """The numerics class, within which a row has equal bytes, whatever the rows beside it."""
    precision: str = "fp32"
    """Precision of the products."""

    def budget(self, request: int | None) -> int:
        """Tokens in one forward pass at a request of so many; None means those of the place."""
        return min(request or self.budget_tokens, MOST_TOKENS[self.device])


def unproven(device: str) -> Place:
    """A device without the test of neighbouring rows, for uses that do not depend on it; fp32."""
    return Place(device, BUDGET_TOKENS[device], numerics_class(device, proven=False))


def settle_on(
    device: str,
    shapes: frozenset[ProductShape],
    *,
    precision: str,
    threads: int,
    budget_tokens: int | None,
    longest: int,
) -> Place:
    """The place for a model; on one thread if rows would affect each other (see `settle`).

    Args:
        device: cpu or cuda.
        shapes: those of the model's matrix products.
        precision: in which they are computed.
        threads: the largest number of threads.
        budget_tokens: tokens in one forward pass; None means the device's default. As many rows are
            tested.
        longest: tokens of the longest input, which is one forward pass even if it exceeds the
            budget.
    """
    budget = min(budget_tokens or BUDGET_TOKENS[device], MOST_TOKENS[device])
    set_products(precision)
    rows = max(budget, longest)
    settled = settle(shapes, device=device, threads=threads, rows=rows)
    numerics = numerics_class(device, precision=precision, proven=settled.proven)
    return Place(device, budget, numerics, precision)


Key = tuple[bool, bool, torch.dtype]


class Buffers(threading.local):
    """`packed.linear`, for a forward pass that uses up results in order; each thread has its own.

    There are two results at a time: a wider one than its input, and one that is not wider. Each is
    overwritten by the next of its sort, but never while it is that product's input. So a pass must
    be done with the queries, keys and values before the inner layer, and so on.
    """

    def __init__(self) -> None:
        """Without memory, which comes with the first products."""
        self._kept: dict[Key, Tensor] = {}

    def __call__(self, x: Tensor, weights: Linear) -> Tensor:
        """The result of `linear`, bit by bit."""

        def room(rows: int, width: int, dtype: torch.dtype) -> Tensor:
            wider = width > x.shape[1]
            first = self._kept.get((wider, False, dtype))
            second = first is not None and _together(first, x)
            return self._memory((wider, second, dtype), rows * width).view(rows, width)

        return linear(x, weights, room)

    def _memory(self, key: Key, size: int) -> Tensor:
        """So many numbers of what is kept under this key."""
        kept = self._kept.get(key)
        if kept is None or len(kept) < size:
            kept = self._kept[key] = torch.empty(size, dtype=key[2])
        return kept[:size]


def _together(one: Tensor, other: Tensor) -> bool:
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


class _Part:
    """Rows of a batch that are computed in its `with` block."""

    def __init__(self, rows: NDArray[np.int64]) -> None:
        self.rows = rows
        self.fits = True

    def __enter__(self) -> None:
        """Nothing is done before."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        """Note that the device had no room; a single row's error is raised."""
        self.fits = not isinstance(error, torch.OutOfMemoryError)
        return not self.fits and len(self.rows) > 1


def parts_that_fit(rows: NDArray[np.int64]) -> Iterator[_Part]:
    """The rows whole, or in halves of halves where a device has no room, in their order.

        for part in parts_that_fit(rows):
            with part:
                results[part.rows] = compute(part.rows)

    Halves have the same values, since no row's value depends on the rows beside it. The next batch
    is tried whole again: memory that another process used may be free by then.

    Raises:
        torch.OutOfMemoryError: in the block, if a single row does not fit.
    """
    waiting = [rows]
    while waiting:
        part = _Part(waiting.pop())
        yield part
        if not part.fits:
            torch.cuda.empty_cache()  # the block is left: no traceback holds its tensors
            half = len(part.rows) // 2
            waiting += [part.rows[half:], part.rows[:half]]
