"""Paired statistics over queries: differences with intervals, tests, and their correction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 10_000
Float64 = NDArray[np.float64]
SAMPLES = 100_000
EXACT_BITS = 16
BATCH = 1000
BATCH_VALUES = 4_000_000
"""Values that a batch of resamples draws at most."""
SEED = 20261121


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean difference of a measure over queries, its 95% interval, and how many queries differ."""

    mean: float
    low: float
    high: float
    wins: int
    """Queries with a higher value than the baseline's; `ties` an equal, `losses` a lower one."""
    ties: int
    losses: int

    @property
    def signs(self) -> str:
        """wins/ties/losses."""
        return f"{self.wins}/{self.ties}/{self.losses}"


def difference(
    values: Mapping[str, float], baseline: Mapping[str, float], *, seed: int = SEED
) -> Difference:
    """The mean of `values` minus `baseline`, paired by query.

    The interval is the percentile bootstrap over queries, with 10,000 resamples from a fixed seed.
    The same values give the same numbers on every machine.

    Source: Efron and Tibshirani 1993, chapter 13.
    """
    (result,) = differences([(values, baseline)], seed=seed)
    return result


def differences(
    pairs: Sequence[tuple[Mapping[str, float], Mapping[str, float]]], *, seed: int = SEED
) -> list[Difference]:
    """`difference` of each pair (values, baseline), which all have as many queries.

    The resamples are drawn once for all of them, which saves more than half of the time.
    """
    assert all(values.keys() == base.keys() and values for values, base in pairs)
    deltas = [np.array([values[q] - base[q] for q in sorted(values)]) for values, base in pairs]
    if not deltas:
        return []
    num = len(deltas[0])
    assert all(len(of_pair) == num for of_pair in deltas)
    rng = np.random.default_rng(seed)
    means = np.empty((len(deltas), RESAMPLES))
    for start in range(0, RESAMPLES, BATCH):
        drawn = rng.integers(0, num, (BATCH, num))
        for place, of_pair in enumerate(deltas):
            means[place, start : start + BATCH] = of_pair[drawn].mean(axis=1)
    results = []
    for of_pair, resampled in zip(deltas, means, strict=True):
        low, high = np.quantile(resampled, [0.025, 0.975])
        signs = (int((of_pair > 0).sum()), int((of_pair == 0).sum()), int((of_pair < 0).sum()))
        results.append(Difference(float(of_pair.mean()), float(low), float(high), *signs))
    return results


def change(
    values: Mapping[str, float], before: Mapping[str, float], *, seed: int = SEED
) -> Difference:
    """The mean of `values` minus the mean of `before`, each over its own queries.

    The interval is the percentile bootstrap over the queries of either: a resample's means are over
    the drawn queries that each has. Over the same queries this is `difference`, and without a query
    in common the interval of two independent samples. Wins, ties and losses count the queries that
    both have.

    Source: Efron and Tibshirani 1993, chapters 8 and 13.
    """
    assert values and before
    queries = sorted({*values, *before})
    sides = [np.array([side.get(q, np.nan) for q in queries]) for side in (values, before)]
    rng, num = np.random.default_rng(seed), len(queries)
    batch = max(1, min(BATCH, BATCH_VALUES // num))
    resampled = np.empty(RESAMPLES)
    for start in range(0, RESAMPLES, batch):
        drawn = rng.integers(0, num, (min(batch, RESAMPLES - start), num))
        now, then = (_means(side[drawn]) for side in sides)
        resampled[start : start + len(drawn)] = now - then
    low, high = np.nanquantile(resampled, [0.025, 0.975])
    both = sides[0] - sides[1]
    signs = (int((both > 0).sum()), int((both == 0).sum()), int((both < 0).sum()))
    mean = float(np.nanmean(sides[0]) - np.nanmean(sides[1]))
    return Difference(mean, float(low), float(high), *signs)


def _means(drawn: Float64) -> Float64:
    """The mean of each row's numbers; NaN of a row that has none."""
    counts = (~np.isnan(drawn)).sum(axis=1)
    return np.where(counts, np.nansum(drawn, axis=1) / np.maximum(counts, 1), np.nan)


def t_test(deltas: Float64) -> float:
    """Two-sided p of the paired t test; 1 if every difference is 0 or there is only one query."""
    from scipy.special import stdtr  # scipy.stats takes a second of CPU to import

    if len(deltas) < 2 or not deltas.any():
        return 1.0
    if np.ptp(deltas) == 0:
        return 0.0
    t = deltas.mean() / (deltas.std(ddof=1) / np.sqrt(len(deltas)))
    return float(2 * stdtr(len(deltas) - 1, -abs(t)))


def randomisation_tests(deltas: Sequence[Float64], *, seed: int = SEED) -> list[float]:
    """Two-sided p of the paired randomisation test of the mean, for each array of differences.

    Under the null hypothesis each query's difference has either sign with equal probability. Let m
    differences be other than 0. If m <= 16, all 2^m sign patterns are used; otherwise 100,000 drawn
    ones, with the observed one counted among them: (b + 1) / (B + 1). Sums equal to a relative
    1e-12 count as extreme.

    Source: Smucker, Allan, Carterette 2007, section 3.
    """
    exact = [_exact(d[d != 0]) if np.count_nonzero(d) <= EXACT_BITS else None for d in deltas]
    drawn = [i for i, p in enumerate(exact) if p is None]
    if drawn:
        for i, p in zip(drawn, _drawn([deltas[i] for i in drawn], seed), strict=True):
            exact[i] = p
    return [p for p in exact if p is not None]


def holm(p_values: Sequence[float]) -> list[float]:
    """Corrected p values, in the order given.

    Source: Holm 1979: the i-th smallest of m is multiplied by m - i + 1, then made non-decreasing.
    """
    order = np.argsort(p_values, kind="stable")
    count = len(p_values)
    raised = np.asarray(p_values)[order] * (count - np.arange(count))
    corrected = np.empty(count)
    corrected[order] = np.minimum(np.maximum.accumulate(raised), 1.0)
    return [float(p) for p in corrected]


def _exact(deltas: Float64) -> float:
    if not len(deltas):
        return 1.0
    patterns = np.arange(1 << len(deltas))[:, None] >> np.arange(len(deltas)) & 1
    sums = np.abs((patterns * 2.0 - 1.0) @ deltas)
    return float((sums >= _threshold(deltas)).mean())


def _drawn(deltas: Sequence[Float64], seed: int) -> list[float]:
    """The drawn signs, one matrix for all comparisons with the same number of queries."""
    rng = np.random.default_rng(seed)
    stacked = np.stack(deltas, axis=1)
    thresholds = np.array([_threshold(d) for d in deltas])
    extreme = np.zeros(len(deltas), np.int64)
    num = len(stacked)
    for _ in range(SAMPLES // BATCH):
        bits = np.unpackbits(np.frombuffer(rng.bytes(BATCH * -(-num // 8)), np.uint8))
        signs = bits.reshape(BATCH, -1)[:, :num] * 2.0 - 1.0
        extreme += (np.abs(signs @ stacked) >= thresholds).sum(axis=0)
    return [float((count + 1) / (SAMPLES + 1)) for count in extreme]


def _threshold(deltas: Float64) -> float:
    return abs(float(deltas.sum())) * (1 - 1e-12)
