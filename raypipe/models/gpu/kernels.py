"""Fused kernels of a layer's work between its products, in Triton, for CUDA.

A layer's sum, its normalisation and the conversion for the next product are one kernel, which reads
and writes 12 bytes for each value, where the plain functions take 24. The bias and gelu of the
inner layer are another. Sums and functions are fp32, as the plain ones are, and a row is computed
without its neighbours.

This module needs the package triton, which PyTorch's CUDA builds bring. Only `found_kernels` of
`raypipe.models.gpu.passes` imports it, on a CUDA device. Tests run the kernels on a CPU in
Triton's interpreter.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from raypipe.models.packed import Linear, Product, States

VALUES_OF_THREAD = 8
"""Values that a thread computes: 16 bytes of a half precision, the widest load."""
COLUMNS = 1024
"""Columns of a program of bias and gelu, at most."""


@triton.jit  # type: ignore[untyped-decorator]
def _sum_norm(  # type: ignore[no-untyped-def]
    x,
    y,
    weight,
    bias,
    wide,
    narrow,
    rows,
    width,
    eps,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
) -> None:
    """Layer normalisation of x + y in ROWS rows of `width` values, at most WIDTH."""
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    column = tl.arange(0, WIDTH)[None, :]
    inside = column < width
    there = (row < rows) & inside
    place = row.to(tl.int64) * width + column
    total = tl.load(x + place, mask=there, other=0.0).to(tl.float32)
    total += tl.load(y + place, mask=there, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=1, keep_dims=True) / width
    centred = tl.where(inside, total - mean, 0.0)
    variance = tl.sum(centred * centred, axis=1, keep_dims=True) / width
    scale = tl.load(weight + column, mask=inside, other=0.0)
    shift = tl.load(bias + column, mask=inside, other=0.0)
    result = centred * (1.0 / tl.sqrt_rn(variance + eps)) * scale + shift
    tl.store(wide + place, result, mask=there)
    tl.store(narrow + place, result.to(narrow.dtype.element_ty), mask=there)


@triton.jit  # type: ignore[untyped-decorator]
def _gelu(  # type: ignore[no-untyped-def]
    x, bias, rows, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr
) -> None:
    """gelu(x + bias) in place, in ROWS rows and COLUMNS columns; Gauss's error function exact."""
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    column = (tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS))[None, :]
    there = (row < rows) & (column < width)
    place = row.to(tl.int64) * width + column
    total = tl.load(x + place, mask=there, other=0.0).to(tl.float32)
    total += tl.load(bias + column, mask=column < width, other=0.0).to(tl.float32)
    result = 0.5 * total * (1.0 + tl.erf(total * 0.7071067811865476))
    tl.store(x + place, result.to(x.dtype.element_ty), mask=there)


class Kernels:
    """The work between products in fused kernels, as `raypipe.models.packed.Between`."""

    def __init__(self, rows: int = 1) -> None:
        """Kernels of which a program computes so many rows, a power of two."""
        self._rows = rows

    def sum_norm(self, x: Tensor, y: Tensor, norm: Linear, eps: float) -> States:
        """Layer normalisation of x + y, [T, H] each: fp32, and rounded to the dtype of x."""
        assert x.is_contiguous() and y.is_contiguous() and x.shape == y.shape
        (rows, width), (weight, bias) = x.shape, norm
        wide, narrow = torch.empty_like(x, dtype=torch.float32), torch.empty_like(x)
        block = triton.next_power_of_2(width)
        _sum_norm[(triton.cdiv(rows, self._rows),)](
            *(x, y, weight, bias, wide, narrow, rows, width, eps),
            ROWS=self._rows,
            WIDTH=block,
            num_warps=_num_warps(self._rows * block),
        )
        return States(wide, narrow)

    def inner(self, x: Tensor, weights: Linear, product: Product) -> Tensor:
        """gelu(x W^T + b), of a product that is rounded before its bias is added; in its memory."""
        weight, bias = weights
        widened = product(x, (weight, weight.new_zeros(1)))
        rows, width = widened.shape
        block = min(COLUMNS, triton.next_power_of_2(width))
        _gelu[(triton.cdiv(rows, self._rows), triton.cdiv(width, block))](
            *(widened, bias, rows, width),
            ROWS=self._rows,
            COLUMNS=block,
            num_warps=_num_warps(self._rows * block),
        )
        return widened


def _num_warps(values: int) -> int:
    """Warps of 32 threads for a program of so many values, a power of two from 1 to 16."""
    return int(max(1, min(16, values // (32 * VALUES_OF_THREAD))))
