"""Draws examples from judgements and runs: a relevant passage with irrelevant ones."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from raypipe.training.examples.rankings import Ranking, Taught
from raypipe.training.examples.table import NO_RUN, Examples


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Which passages of a run may be negatives or relevant, and how many are drawn."""

    first: int
    last: int
    per_example: int
    examples: int
    above_teacher: float | None = None
    relevant_last: int | None = None


@dataclass
class Short:
    """Counts of what could not be drawn."""

    without_negatives: int = 0
    """Relevant passages whose query had too few negatives for all their examples."""
    without_teacher: int = 0
    """Relevant passages that the teacher did not score."""
    beyond_runs: int = 0
    """Relevant passages that no run has up to relevant_last."""
    negatives_without_teacher: int = 0
    """Candidates that the teacher did not score, counted with each relevant passage."""
    filtered: int = 0
    """Candidates that the teacher scores above the relevant passage."""
    lists: int = 0
    """Unlabelled lists for which a query has too few passages."""
    passages_without_teacher: int = 0
    """Candidates of unlabelled lists that the teacher did not score."""


Negative = tuple[int, int, int]
"""A passage or document, the number of its run, and its rank there."""
Drawn = tuple[int, list[int], list[int], list[int]]
"""Query row; passages, the relevant one first; the run and the rank of each."""


def drawn_examples(
    relevant: dict[int, list[int]],
    known: dict[int, set[int]],
    runs: Sequence[Ranking],
    teacher: Ranking | None,
    window: Window,
    *,
    seed: int,
    short: Short,
) -> Examples:
    """Examples by query row, then relevant passage; each draw depends on seed and query alone.

    Args:
        relevant: query row -> rows of passages to learn as relevant.
        known: query row -> rows that must not be its negatives.
        runs: the sources of negatives; for a passage in several, the first run's rank is kept.
        teacher: scores of passages; None without a teacher.
        window: ranks and counts.
        seed: the seed of the draws.
        short: counts what could not be drawn.
    """
    spans = [spans_of(run) for run in runs]
    taught = None if teacher is None else Taught(teacher)
    rows: list[Drawn] = []
    for query in sorted(relevant):
        candidates = pool(query, runs, spans, window, known.get(query, set()))
        rng = np.random.default_rng([seed, query])
        for positive in reached(query, relevant[query], runs, spans, window, short):
            usable = _usable(query, positive, candidates, taught, window, short)
            if usable is None:
                continue
            for _ in range(window.examples):
                if len(usable) < window.per_example:
                    short.without_negatives += 1
                    break
                chosen = rng.choice(len(usable), window.per_example, replace=False)
                drawn = [usable[int(place)] for place in chosen]
                rows.append(example_of(query, positive, drawn))
                usable = [each for each in usable if each not in drawn]
    return examples_of(rows, window.per_example + 1, taught)


def pool(
    query: int,
    runs: Sequence[Ranking],
    spans: list[dict[int, tuple[int, int]]],
    window: Window,
    known: set[int],
) -> list[Negative]:
    """All possible negatives of a query."""
    found: dict[int, Negative] = {}
    for number, (run, of_query) in enumerate(zip(runs, spans, strict=True)):
        start, stop = of_query.get(query, (0, 0))
        passages, ranks = run.passage_rows[start:stop], run.ranks[start:stop]
        for passage, rank in zip(passages.tolist(), ranks.tolist(), strict=True):
            if window.first <= rank <= window.last and passage not in known:
                found.setdefault(passage, (passage, number, rank))
    return list(found.values())


def reached(
    query: int,
    relevant: list[int],
    runs: Sequence[Ranking],
    spans: list[dict[int, tuple[int, int]]],
    window: Window,
    short: Short,
) -> list[int]:
    """The relevant passages that are used in examples."""
    if window.relevant_last is None:
        return relevant
    found: set[int] = set()
    for run, of_query in zip(runs, spans, strict=True):
        start, stop = of_query.get(query, (0, 0))
        near = run.ranks[start:stop] <= window.relevant_last
        found.update(run.passage_rows[start:stop][near].tolist())
    kept = [passage for passage in relevant if passage in found]
    short.beyond_runs += len(relevant) - len(kept)
    return kept


def _usable(
    query: int,
    positive: int,
    pool: list[Negative],
    taught: Taught | None,
    window: Window,
    short: Short,
) -> list[Negative] | None:
    """Which of the pool may be negatives of a relevant passage; None if that has no score."""
    if taught is None:
        return list(pool)
    own, *others = taught.of(query, [positive, *(passage for passage, _, _ in pool)])
    if np.isnan(own):
        short.without_teacher += 1
        return None
    scored = [(each, s) for each, s in zip(pool, others, strict=True) if not np.isnan(s)]
    short.negatives_without_teacher += len(pool) - len(scored)
    if window.above_teacher is None:
        return [each for each, _ in scored]
    kept = [each for each, score in scored if score <= own + window.above_teacher]
    short.filtered += len(scored) - len(kept)
    return kept


def example_of(query: int, relevant: int, negatives: Sequence[Negative]) -> Drawn:
    """One example; the relevant passage is of no run."""
    passages = [relevant, *(passage for passage, _, _ in negatives)]
    origins = [NO_RUN, *(run for _, run, _ in negatives)]
    return query, passages, origins, [0, *(rank for _, _, rank in negatives)]


def examples_of(rows: list[Drawn], width: int, taught: Taught | None) -> Examples:
    """The table of the examples, with the teacher's scores."""
    shape = (len(rows), width)
    passages = np.array([row[1] for row in rows], np.int32).reshape(shape)
    teacher = None
    if taught is not None:
        scores = [taught.of(query, found) for query, found, _, _ in rows]
        teacher = np.array(scores, np.float32).reshape(shape)
    return Examples(
        query_rows=np.array([row[0] for row in rows], np.int32),
        passage_rows=passages,
        runs=np.array([row[2] for row in rows], np.uint8).reshape(shape),
        ranks=np.array([row[3] for row in rows], np.int32).reshape(shape),
        teacher=teacher,
    )


def spans_of(run: Ranking) -> dict[int, tuple[int, int]]:
    """Query row -> (first line, one past the last line)."""
    queries = run.query_rows
    starts = np.flatnonzero(np.diff(queries, prepend=-1))
    stops = np.append(starts[1:], len(queries))
    return {
        int(queries[start]): (int(start), int(stop))
        for start, stop in zip(starts, stops, strict=True)
    }
