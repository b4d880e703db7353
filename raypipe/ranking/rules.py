"""The rules that fuse several rankings of one query into one.

`fuse.py` applies them to whole runs. Sums are taken in float64 in the order of the runs and
become float32 once; the result is ordered by (score descending, row ascending).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from raypipe.ranking.order import Float32, Int64, order

Float64 = NDArray[np.float64]


class Ranking(NamedTuple):
    """One query's candidates, best first."""

    rows: Int64
    """Passage rows, int64 [N], each once."""
    scores: Float32
    """float32 [N]; comparable only with each other."""


def alternate(rankings: Sequence[Ranking], *, depth: int | None = None) -> Ranking:
    """The runs' passages in turn, from the first run on, each where it first appears.

    The lines are taken in the order run 1 rank 1, run 2 rank 1, run 1 rank 2, ...; a line whose
    passage was already taken is skipped, and its turn is lost. After one run ends, the others
    continue. Scores are 1/rank in float32, as the runs' own are not comparable.

    Source: Zhan et al. 2020 (RepBERT), Eq. 6, for two runs.
    """
    rows = np.concatenate([ranking.rows for ranking in rankings])
    rank = np.concatenate([np.arange(len(ranking.rows)) for ranking in rankings])
    turn = np.repeat(np.arange(len(rankings)), [len(ranking.rows) for ranking in rankings])
    in_turn = rows[np.lexsort((turn, rank))]
    _, first = np.unique(in_turn, return_index=True)
    taken = in_turn[np.sort(first)][:depth]
    return Ranking(taken, (1 / np.arange(1, len(taken) + 1)).astype(np.float32))


def reciprocal_rank(
    rankings: Sequence[Ranking], *, k: float = 60, depth: int | None = None
) -> Ranking:
    """Sum over the runs that hold a passage of 1 / (k + rank), ranks from 1.

    Source: Cormack, Clarke, Buettcher 2009, section 2, with its k = 60.
    """
    rows, places = _union(rankings)
    sums = np.zeros(len(rows))
    for place in places:
        sums[place] += 1 / (k + np.arange(1, len(place) + 1))
    return _ranked(rows, sums, depth)


def weighted(
    rankings: Sequence[Ranking], *, weights: Sequence[float], depth: int | None = None
) -> Ranking:
    """Weighted sum of each run's scores after min-max normalisation to [0, 1] within the query.

    A passage that a run lacks gets that run's minimum, 0. If all scores of a run are equal (usually
    because it has one passage), each of its passages gets 1, since being returned is better than
    not being returned.

    Source: convex combination as in Bruch et al. 2023, section 3, with min-max normalisation.
    """
    rows, places = _union(rankings)
    sums = np.zeros(len(rows))
    for ranking, place, weight in zip(rankings, places, weights, strict=True):
        sums[place] += weight * min_max(ranking.scores)
    return _ranked(rows, sums, depth)


def average(rankings: Sequence[Ranking], *, depth: int | None = None) -> Ranking:
    """Mean of the runs' raw scores, for several checkpoints of one stage (one score scale).

    A passage that a run lacks gets that run's smallest score for the query; a run without any line
    for the query is left out of the mean.
    """
    present = [ranking for ranking in rankings if len(ranking.rows)]
    rows, places = _union(present)
    sums = np.zeros(len(rows))
    for ranking, place in zip(present, places, strict=True):
        scores = ranking.scores.astype(np.float64)
        column = np.full(len(rows), scores.min())
        column[place] = scores
        sums += column
    return _ranked(rows, sums / max(len(present), 1), depth)


def _union(rankings: Sequence[Ranking]) -> tuple[Int64, list[Int64]]:
    """All passage rows, ascending, and for each run the positions of its rows among them."""
    rows = np.unique(np.concatenate([ranking.rows for ranking in rankings] or [_NO_ROWS]))
    return rows, [np.searchsorted(rows, ranking.rows) for ranking in rankings]


def min_max(scores: Float32) -> Float64:
    """Scores of one run and query mapped to [0, 1], float64; all 1 if they are all equal."""
    if not len(scores):
        return np.empty(0)
    wide = scores.astype(np.float64)
    low, high = wide.min(), wide.max()
    return np.ones(len(wide)) if low == high else (wide - low) / (high - low)


def _ranked(rows: Int64, sums: Float64, depth: int | None) -> Ranking:
    """The passages in the one order of rankings, cut at depth."""
    scores = sums.astype(np.float32)
    best = order(scores, rows)[:depth]
    return Ranking(rows[best], scores[best])


_NO_ROWS = np.empty(0, dtype=np.int64)
