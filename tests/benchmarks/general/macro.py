"""The mean over collections of a paired difference, by a bootstrap stratified by collection."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 10_000
SEED = 20261121


@dataclass(frozen=True)
class Macro:
    """A mean over collections that each count once."""

    mean: float
    low: float
    high: float
    """Of the 95% percentile interval."""
    p: float
    """One-sided: the share of resamples at or below the threshold, the sample counted as one."""


def macro(deltas: Sequence[NDArray[np.float64]], *, threshold: float = 0.0) -> Macro:
    """The macro mean of each collection's differences [Q], queries drawn anew within each.

    Source: Efron and Tibshirani 1993, chapter 13.
    """
    draw = np.random.default_rng(SEED)
    means = np.zeros(RESAMPLES)
    for each in deltas:
        means += each[draw.integers(len(each), size=(RESAMPLES, len(each)))].mean(axis=1)
    means /= len(deltas)
    low, high = np.percentile(means, [2.5, 97.5])
    below = int((means <= threshold).sum())
    return Macro(
        mean=float(np.mean([each.mean() for each in deltas])),
        low=float(low),
        high=float(high),
        p=(1 + below) / (1 + RESAMPLES),
    )
