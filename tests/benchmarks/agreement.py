"""How far two ways of scoring the same candidates agree: scores, orders and the first ten."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import numpy as np

FIRST = 10
Lists = Mapping[int, Mapping[Hashable, float]]
"""Query -> candidate -> score, best first."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Of the scores that both ways gave."""

    queries: int
    scores: int
    largest: float
    """The largest difference of a score, as a magnitude; 0.0 where there is none to compare."""
    tau: float | None
    """Kendall's tau-b of the scores, the mean over the queries; None if no query has two that
    differ on either side."""
    changed: int
    """Queries whose first ten are others, or in another order."""
    lacking: int
    """Scores of one way that the other has not."""


def agreement(own: Lists, reference: Lists) -> Agreement:
    """The agreement of two ways over the queries of `own`.

    Both have lists of the same candidates, but for those that one of them could not compute. Such
    a candidate counts as lacking; where it is among the first ten, these have changed.

    Source: Kendall 1945, "The treatment of ties in ranking problems" (tau-b).
    """
    from scipy.stats import kendalltau  # takes a second of CPU to import

    largest, taus, changed, num, lacking = 0.0, [], 0, 0, 0
    for query, scores in own.items():
        others = reference.get(query, {})
        both = [(score, others[each]) for each, score in scores.items() if each in others]
        lacking += len(scores) + len(others) - 2 * len(both)
        num += len(both)
        changed += [*scores][:FIRST] != [*others][:FIRST]
        if both:
            pairs = np.array(both)
            largest = max(largest, float(np.abs(pairs[:, 0] - pairs[:, 1]).max()))
        if all(len({pair[side] for pair in both}) > 1 for side in (0, 1)):
            taus.append(float(kendalltau(pairs[:, 0], pairs[:, 1]).statistic))
    tau = float(np.mean(taus)) if taus else None
    return Agreement(len(own), num, largest, tau, changed, lacking)
