"""Aggregates pairwise probabilities into one score per passage.

p(i, j) is the probability that passage i is more relevant than passage j; J(i) are the passages j
with which i was compared. Sums are taken in float64 in the order of the rows and become float32
once.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from raypipe.ranking.candidates import Keys

Float64 = NDArray[np.float64]
SMALLEST = float(np.finfo(np.float32).tiny)
"""The value used in place of a probability of 0 in a logarithm."""


def _sum(own: Float64, groups: NDArray[np.int64], num: int) -> Float64:
    return np.bincount(groups, own, num).astype(np.float64)


def _min(own: Float64, groups: NDArray[np.int64], num: int) -> Float64:
    out = np.full(num, np.inf)
    np.minimum.at(out, groups, own)
    return out


def _max(own: Float64, groups: NDArray[np.int64], num: int) -> Float64:
    out = np.full(num, -np.inf)
    np.maximum.at(out, groups, own)
    return out


def _log(p: Float64) -> Float64:
    return np.log(np.maximum(p, SMALLEST))


_Rule = tuple[
    Callable[[Float64], Float64],
    Callable[[Float64, NDArray[np.int64], int], Float64],
    Callable[[Float64], Float64] | None,
]
RULES: dict[str, _Rule] = {
    "sum": (lambda p: p, _sum, None),
    "binary": (lambda p: (p > 0.5).astype(np.float64), _sum, None),
    "min": (lambda p: p, _min, None),
    "max": (lambda p: p, _max, None),
    "sample": (lambda p: p, _sum, None),
    "symmetric-sum": (lambda p: p, _sum, lambda p: 1 - p),
    "symmetric-log-sum": (_log, _sum, lambda p: _log(1 - p)),
}


def aggregate(
    keys: Keys, probabilities: NDArray[np.float32], *, method: str
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """(query rows, passage rows, scores) of every passage i that was compared, by (query, row).

    Over j in J(i): sum p(i, j); binary: how many p(i, j) exceed 0.5; min and max of p(i, j);
    sample: sum over the m drawn j (`candidates.pairs` draws them). Two methods are not from the
    paper, but other tools call them sum: symmetric-sum adds 1 - p(j, i) for every scored pair (j,
    i), and symmetric-log-sum does so with logarithms, log p(i, j) + log(1 - p(j, i)).

    Source: Nogueira et al. 2019, Eqs. 3 to 7.
    """
    queries, rows, others = keys
    terms, combine, reverse = RULES[method]
    p = probabilities.astype(np.float64)
    codes, groups = np.unique(np.stack([queries, rows]), axis=1, return_inverse=True)
    groups = groups.reshape(-1)
    scores = combine(terms(p), groups, codes.shape[1])
    if reverse is not None:
        stacked = np.concatenate([codes, np.stack([queries, others])], axis=1)
        _, places = np.unique(stacked, axis=1, return_inverse=True)
        places = places.reshape(-1)
        back = np.full(places.max(initial=-1) + 1, -1, np.int64)
        back[places[: codes.shape[1]]] = np.arange(codes.shape[1])
        of_other = back[places[codes.shape[1] :]]
        known = of_other >= 0
        scores = scores + np.bincount(of_other[known], reverse(p)[known], codes.shape[1])
    return codes[0], codes[1], scores.astype(np.float32)
