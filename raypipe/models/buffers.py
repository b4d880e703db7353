"""Linear layers whose results lie in memory that is used again, to serve a model on a CPU.

Memory of this size comes fresh from the system each time otherwise, and its pages are zeroed when
they are first touched: a tenth of the CPU time of a forward pass.
"""

import threading

import torch
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
