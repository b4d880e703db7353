"""Rows that do not fit into a device's memory together are computed in halves."""

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

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
