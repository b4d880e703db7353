"""Draws examples from judgements and runs: relevant passages, irrelevant ones, unlabelled lists."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from raypipe.config.training import Negatives
from raypipe.ranking.blend import first_stage
from raypipe.ranking.order import begins
from raypipe.stages.run_tables import read_queries_of_run
from raypipe.storage.store import Stored
from raypipe.training.examples import (
    NO_RUN,
    ROWS_AT_ONCE,
    Examples,
    Int32,
    Int64,
    RelevantTexts,
    are_among,
    pair_keys,
)

Float32 = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """A run over the training queries, by query row, then rank."""

    query_rows: Int32
    passage_rows: Int64
    ranks: Int32
    scores: Float32

    def without(self, passages: Int64) -> "TrainingRun":
        """The ranking without these passages; the others keep their ranks."""
        return self._kept(~np.isin(self.passage_rows, passages))

    def without_copies(
        self, judged: Int64, relevant_texts: RelevantTexts
    ) -> tuple["TrainingRun", Int32, Int32]:
        """The ranking without lines that are relevant by their text but not judged themselves.

        Also the query row and the rank of each line that is left out.

        Args:
            judged: sorted keys of the judged pairs, which stay.
            relevant_texts: the texts of those pairs.
        """
        keep = np.ones(len(self.query_rows), bool)
        for start in range(0, len(keep), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            queries, passages = self.query_rows[part].astype(np.int64), self.passage_rows[part]
            is_judged = are_among(judged, pair_keys(queries, passages))
            keep[part] = is_judged | ~relevant_texts.include(queries, passages)
        return self._kept(keep), self.query_rows[~keep], self.ranks[~keep]

    def upto(self, last: int) -> "TrainingRun":
        """Ranks 1 to `last` of each query."""
        return self._kept(self.ranks <= last)

    def scores_are_of_ranks(self) -> bool:
        """Whether a run has several ranks, and each score is 1 / rank: the file has no scores."""
        of_ranks = (1 / self.ranks).astype(np.float32)
        return bool((self.ranks > 1).any() and (self.scores == of_ranks).all())

    def _kept(self, keep: NDArray[np.bool_]) -> "TrainingRun":
        return TrainingRun(
            self.query_rows[keep], self.passage_rows[keep], self.ranks[keep], self.scores[keep]
        )


def ranking_of(stored: Stored) -> TrainingRun:
    """The ranking in a run's store, held in memory: 20 bytes per line."""
    table = read_queries_of_run(stored, 0, stored.num_rows)
    names = ("query_row", "passage_row", "rank", "score")
    return TrainingRun(*(table[name].to_numpy() for name in names))


class Taught:
    """A teacher's scores by pair: 12 bytes each."""

    def __init__(self, run: TrainingRun) -> None:
        """Sorts the pairs."""
        keys = pair_keys(run.query_rows.astype(np.int64), run.passage_rows)
        order = np.argsort(keys)
        self._keys, self._scores = keys[order], run.scores[order]

    def of(self, query: int, passages: Sequence[int]) -> list[float]:
        """The scores of a query's passages, NaN for a missing one."""
        rows = np.array(passages, np.int64)
        scores: list[float] = self.of_pairs(np.full(len(rows), query), rows).tolist()
        return scores

    def of_pairs(self, query_rows: Int64, passage_rows: Int64) -> Float32:
        """The score of each pair, float32, NaN for a missing one."""
        keys = pair_keys(query_rows, passage_rows)
        if not len(self._keys):
            return np.full(len(keys), np.nan, np.float32)
        places = np.searchsorted(self._keys, keys).clip(max=len(self._keys) - 1)
        found: Float32 = np.where(self._keys[places] == keys, self._scores[places], np.nan)
        return found.astype(np.float32)


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
    copies: int = 0
    """Candidates, or given triples, whose irrelevant passage is relevant by its text."""


Negative = tuple[int, int, int]
"""A passage or document, the number of its run, and its rank there."""
Drawn = tuple[int, list[int], list[int], list[int]]
"""Query row; passages, the relevant one first; the run and the rank of each."""


def drawn_examples(
    relevant: dict[int, list[int]],
    known: dict[int, set[int]],
    runs: Sequence[TrainingRun],
    teacher: TrainingRun | None,
    window: Negatives,
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
    runs: Sequence[TrainingRun],
    spans: list[dict[int, tuple[int, int]]],
    window: Negatives,
    known: set[int],
) -> list[Negative]:
    """All possible negatives of a query."""
    by_passage: dict[int, Negative] = {}
    for number, (run, of_query) in enumerate(zip(runs, spans, strict=True)):
        start, stop = of_query.get(query, (0, 0))
        passages, ranks = run.passage_rows[start:stop], run.ranks[start:stop]
        for passage, rank in zip(passages.tolist(), ranks.tolist(), strict=True):
            if window.first <= rank <= window.last and passage not in known:
                by_passage.setdefault(passage, (passage, number, rank))
    return list(by_passage.values())


def reached(
    query: int,
    relevant: list[int],
    runs: Sequence[TrainingRun],
    spans: list[dict[int, tuple[int, int]]],
    window: Negatives,
    short: Short,
) -> list[int]:
    """The relevant passages that are used in examples."""
    if window.relevant_last is None:
        return relevant
    rows: set[int] = set()
    for run, of_query in zip(runs, spans, strict=True):
        start, stop = of_query.get(query, (0, 0))
        near = run.ranks[start:stop] <= window.relevant_last
        rows.update(run.passage_rows[start:stop][near].tolist())
    kept = [passage for passage in relevant if passage in rows]
    short.beyond_runs += len(relevant) - len(kept)
    return kept


def _usable(
    query: int,
    positive: int,
    pool: list[Negative],
    taught: Taught | None,
    window: Negatives,
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


def spans_of(run: TrainingRun) -> dict[int, tuple[int, int]]:
    """Query row -> (first line, one past the last line)."""
    queries = run.query_rows
    starts = np.flatnonzero(np.diff(queries, prepend=-1))
    stops = np.append(starts[1:], len(queries))
    return {
        int(queries[start]): (int(start), int(stop))
        for start, stop in zip(starts, stops, strict=True)
    }


def unlabelled_examples(
    queries: Iterable[int],
    runs: Sequence[TrainingRun],
    teacher: TrainingRun,
    window: Negatives,
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


def labelled_examples(
    relevant: Mapping[int, Sequence[int]],
    known: Mapping[int, set[int]],
    runs: Sequence[TrainingRun],
    last: int,
    refused: set[int],
) -> Examples:
    """The candidates of each query up to a rank, by query row; label 1.0 if relevant, else 0.0.

    A candidate of several runs is one example, of the first of them. Candidates with a grade above
    0 that is too low to be relevant are left out. Source: Nogueira & Cho 2019, section 3.1, and its
    code, which fills up short lists with one irrelevant passage; we do not.

    Args:
        relevant: query row -> rows of relevant passages.
        known: query row -> rows of all passages with a grade above 0.
        runs: the sources of the candidates.
        last: the last rank that is used.
        refused: query rows that must not be trained on.
    """
    relevant_pairs, seen = _pairs(relevant), _pairs(known)
    nears = [run.upto(last) for run in runs]
    queries = np.concatenate([near.query_rows for near in nears])
    passages = np.concatenate([near.passage_rows for near in nears])
    ranks = np.concatenate([near.ranks for near in nears])
    numbers = np.repeat(np.arange(len(nears)), [len(near.ranks) for near in nears])
    keys = pair_keys(queries, passages)
    is_relevant = np.isin(keys, relevant_pairs)
    usable = (is_relevant | ~np.isin(keys, seen)) & ~np.isin(queries, sorted(refused))
    _, firsts = np.unique(keys, return_index=True)
    kept = firsts[usable[firsts]]
    kept = kept[np.lexsort((ranks[kept], numbers[kept], queries[kept]))]
    return Examples(
        query_rows=queries[kept].astype(np.int32),
        passage_rows=passages[kept, None].astype(np.int32),
        runs=numbers[kept, None].astype(np.uint8),
        ranks=ranks[kept, None].astype(np.int32),
        labels=is_relevant[kept, None].astype(np.float32),
    )


def _pairs(pairs: Mapping[int, Collection[int]]) -> Int64:
    counts = [len(passages) for passages in pairs.values()]
    queries = np.repeat(np.array([*pairs], np.int64), counts)
    passages = [passage for found in pairs.values() for passage in found]
    return pair_keys(queries, np.array(passages, np.int64))


def with_first_stages(
    examples: Examples, runs: Sequence[TrainingRun], *, last: int, none: bool, seed: int
) -> Examples:
    """The examples with z, float32 [N, L]; each draw depends on seed and query alone.

    Args:
        examples: a query's examples are together.
        runs: each example has z from one of them, drawn with equal chances.
        last: the last rank of a query's list in them; a passage that the list lacks has 0.
        none: whether 0 for all passages of an example is one of the choices.
        seed: the seed of the draws.
    """
    queries = np.repeat(examples.query_rows, examples.num_passages).astype(np.int64)
    passages = examples.passage_rows.reshape(-1).astype(np.int64)
    chosen = np.repeat(_choices(examples.query_rows, len(runs) + none, seed), examples.num_passages)
    first_stage = np.zeros(len(passages), np.float32)
    for number, run in enumerate(runs):
        own = chosen == number
        scores = Taught(_normalised(run, last)).of_pairs(queries[own], passages[own])
        first_stage[own] = np.nan_to_num(scores)
    return replace(examples, first_stage=first_stage.reshape(examples.passage_rows.shape))


def _choices(query_rows: Int32, number: int, seed: int) -> Int64:
    """One of so many choices for each example."""
    starts = np.flatnonzero(begins(query_rows))
    counts = np.diff(np.append(starts, len(query_rows)))
    # 1: another stream than that of the query's negatives.
    draws = [
        np.random.default_rng([seed, query, 1]).integers(number, size=count)
        for query, count in zip(query_rows[starts].tolist(), counts.tolist(), strict=True)
    ]
    return np.concatenate([np.empty(0, np.int64), *draws])


def _normalised(run: TrainingRun, last: int) -> TrainingRun:
    """The run with z instead of its scores."""
    found = first_stage(run.query_rows, run.ranks, run.scores, last=last)
    return replace(run, scores=found.astype(np.float32))
