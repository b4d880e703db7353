"""The memory of a forward pass: used again, and shared out if there is too little.

To serve a model on a CPU, the results of linear layers lie in memory that is used again. Memory of
this size comes fresh from the system each time otherwise, and its pages are zeroed when they are
first touched: a tenth of the CPU time of a forward pass. Rows that do not fit into a device's
memory together are computed in halves.
"""

import threading
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raypipe.models.packed import Linear, linear

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
        """What `linear` returns, bit by bit."""

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


Number = TypeVar("Number", bound=np.generic)


def in_halves(
    rows: NDArray[np.int64], compute: Callable[[NDArray[np.int64]], NDArray[Number]]
) -> NDArray[Number]:
    """What `compute` gives for the rows, in their order; each result has a row for each of them.

    Halves have the same values, since no row's value depends on the rows beside it. The next batch
    is tried whole again: memory that another process used may be free by then.

    Raises:
        torch.OutOfMemoryError: a single row does not fit.
    """
    try:
        return compute(rows)
    except torch.OutOfMemoryError:
        if len(rows) == 1:
            raise
    torch.cuda.empty_cache()  # here the traceback, which holds the tensors, is gone
    half = len(rows) // 2
    parts = [in_halves(rows[:half], compute), in_halves(rows[half:], compute)]
    return np.concatenate(parts)
