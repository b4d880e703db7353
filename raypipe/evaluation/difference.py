"""The difference of two systems on the same queries, with an interval."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

RESAMPLES = 10_000
SEED = 20261121
BATCH = 1000


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean difference of a measure over queries, and its 95% interval."""

    mean: float
    low: float
    high: float


def difference(
    values: Mapping[str, float], baseline: Mapping[str, float], *, seed: int = SEED
) -> Difference:
    """The mean of `values` minus `baseline`, paired by query.

    The interval is the percentile bootstrap over queries, with 10,000 resamples from a fixed seed.
    The same values give the same numbers on every machine.

    Source: Efron and Tibshirani 1993, chapter 13.
    """
    assert values.keys() == baseline.keys() and values
    deltas = np.array([values[query] - baseline[query] for query in sorted(values)])
    rng = np.random.default_rng(seed)
    means = np.concatenate(
        [
            deltas[rng.integers(0, len(deltas), (BATCH, len(deltas)))].mean(axis=1)
            for _ in range(RESAMPLES // BATCH)
        ]
    )
    low, high = np.quantile(means, [0.025, 0.975])
    return Difference(float(deltas.mean()), float(low), float(high))
