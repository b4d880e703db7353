"""Unlabelled lists: passages of a run alone, for what only a teacher says of them."""

from collections.abc import Iterable, Sequence

import numpy as np

from raypipe.training.examples.draw import (
    Drawn,
    Negative,
    Short,
    Window,
    examples_of,
    pool,
    spans_of,
)
from raypipe.training.examples.rankings import Ranking, Taught
from raypipe.training.examples.table import Examples


def unlabelled_examples(
    queries: Iterable[int],
    runs: Sequence[Ranking],
    teacher: Ranking,
    window: Window,
    *,
    seed: int,
    short: Short,
) -> Examples:
    """Lists of passages that the teacher scored, by query row; no passage is in two of a query.

    A list has `per_example` + 1 passages, so that it is as long as one with a relevant passage.
    Each draw depends on seed and query alone.

    Args:
        queries: the query rows.
        runs: the sources of the passages; for one in several, the first run's rank is kept.
        teacher: scores of passages; those without one are left out.
        window: ranks and counts.
        seed: the seed of the draws.
        short: counts what could not be drawn.
    """
    spans, taught = [spans_of(run) for run in runs], Taught(teacher)
    width = window.per_example + 1
    rows: list[Drawn] = []
    for query in sorted(queries):
        found = pool(query, runs, spans, window, set())
        scores = taught.of(query, [passage for passage, _, _ in found])
        usable = [each for each, s in zip(found, scores, strict=True) if not np.isnan(s)]
        short.passages_without_teacher += len(found) - len(usable)
        order = np.random.default_rng([seed, query]).permutation(len(usable))
        number = min(window.examples, len(usable) // width)
        short.lists += window.examples - number
        rows += [
            _list_of(query, [usable[place] for place in order[start : start + width]])
            for start in range(0, number * width, width)
        ]
    return examples_of(rows, width, taught)


def _list_of(query: int, drawn: Sequence[Negative]) -> Drawn:
    passages, runs, ranks = (list(column) for column in zip(*drawn, strict=True))
    return query, passages, runs, ranks
