"""Fusion of whole runs: from several tables of `schema.RUN` to one, query by query, by a rule.

A rule's sums are taken in float64 in the order of the runs and become float32 once; the result is
ordered by (score descending, row ascending).
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe import schema
from raypipe.errors import InputError
from raypipe.ranking.order import Float32, Int64, check_finite, order, ranks
from raypipe.vocabulary import RRF_K, FusionMethod, words

Float64 = NDArray[np.float64]
METHODS = words(FusionMethod)
"""The methods of `fuse_tables`, by their names on the command line and in recipes."""


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


class Run:
    """A run's columns by (query row, rank), whose queries are found in O(log n)."""

    def __init__(self, table: pa.Table, *, name: str) -> None:
        """Sorts the table's columns; `name` is the run's name in messages."""
        queries = table["query_row"].to_numpy()
        rank = table["rank"].to_numpy()
        stages = table["scored_by"].combine_chunks().dictionary_encode()
        by_rank = np.lexsort((rank, queries))
        self.name = name
        self.queries: NDArray[np.int32] = queries[by_rank]
        self.rows: Int64 = table["passage_row"].to_numpy()[by_rank]
        self.scores: Float32 = table["score"].to_numpy()[by_rank]
        self.rank: NDArray[np.int32] = rank[by_rank]
        self.stages: list[str] = stages.dictionary.to_pylist()
        self.scored_by: NDArray[np.int32] = stages.indices.to_numpy()[by_rank]
        self.query_rows, starts = np.unique(self.queries, return_index=True)
        self._bounds = np.append(starts, len(self.queries))

    def ranking(self, query_row: int) -> Ranking:
        """The query's candidates, best first; empty if the run lacks the query."""
        at = int(np.searchsorted(self.query_rows, query_row))
        if at == len(self.query_rows) or self.query_rows[at] != query_row:
            return Ranking(self.rows[:0], self.scores[:0])
        span = slice(self._bounds[at], self._bounds[at + 1])
        return Ranking(self.rows[span], self.scores[span])

    def mixed_scales(self) -> Iterator[str]:
        """A problem if different stages scored one query's lines."""
        mixed = (self.scored_by[1:] != self.scored_by[:-1]) & (
            self.queries[1:] == self.queries[:-1]
        )
        if mixed.any():
            found = np.unique(self.queries[1:][mixed])
            yield (
                f"{self.name}: {len(found)} queries (first: query_row {found[0]}) hold scores of "
                f"several stages ({', '.join(self.stages)}), which do not "
                "compare; cut the run with `tail: drop`, or use alternate or rrf"
            )

    def problems(self) -> Iterator[str]:
        """The problems of an invalid ranking: scores that are not finite, wrong ranks, repeats."""
        try:
            check_finite(self.scores)
        except InputError as error:
            yield f"{self.name}: {error}"
        expected = ranks(self.queries)
        wrong = np.flatnonzero(self.rank != expected)
        if len(wrong):
            yield (
                f"{self.name}: query_row {self.queries[wrong[0]]}: expected ranks 1, 2, 3, ... "
                f"each once; found {self.rank[wrong[0]]} in place of {expected[wrong[0]]}; "
                "write the run again from its scores"
            )
        pairs = np.lexsort((self.rows, self.queries))
        queries, rows = self.queries[pairs], self.rows[pairs]
        twice = np.flatnonzero((queries[1:] == queries[:-1]) & (rows[1:] == rows[:-1]))
        if len(twice):
            shown = ", ".join(f"({queries[at]}, {rows[at]})" for at in twice[:10])
            yield (
                f"{self.name}: {len(twice)} repeated (query_row, passage_row): {shown}; "
                "a passage may be ranked once per query"
            )


def fuse_tables(
    runs: Sequence[pa.Table],
    *,
    method: str | None,
    scored_by: str,
    weights: Sequence[float] | None = None,
    k: float | None = None,
    depth: int | None = None,
) -> pa.Table:
    """One run (`schema.RUN`) over the union of the runs' queries, by query row, best first.

    A single run is cut at `depth`: its lines keep their order, their scores and their stages.

    Args:
        runs: tables of `schema.RUN`; the rank column decides the order; lines may be in any order.
        method: one of `METHODS`; each one's function above has its equation. None for one run.
        scored_by: the name of the fusing stage, for every line of a fused result.
        weights: one per run, from 0 but not all 0, for `weighted` only; None gives each run 1 /
            number of runs.
        k: the constant of `rrf`, from 0, for it only; None is 60.
        depth: passages kept per query; None keeps all.

    Raises:
        InputError: bad arguments, or a run with a NaN, a repeated passage, ranks that are not
            1..n, or (for weighted and average) a query whose scores come from several stages.
    """
    rule = None
    if len(runs) == 1:
        _check_cut(method, weights=weights, k=k, depth=depth)
    else:
        rule = _rule(method, num_runs=len(runs), weights=weights, k=k, depth=depth)
    opened = [Run(table, name=f"run {number}") for number, table in enumerate(runs, start=1)]
    problems = [problem for run in opened for problem in run.problems()]
    if method in ("weighted", "average"):
        problems += [problem for run in opened for problem in run.mixed_scales()]
    if problems:
        raise InputError(problems)
    if rule is None:
        return _cut(opened[0], depth)
    query_rows = np.unique(np.concatenate([run.query_rows for run in opened]))
    fused = [rule([run.ranking(row) for run in opened]) for row in query_rows.tolist()]
    return _table(query_rows, fused, scored_by)


def _check_cut(
    method: str | None,
    *,
    weights: Sequence[float] | None,
    k: float | None,
    depth: int | None,
) -> None:
    """Refuse settings that one run has no use for."""
    given = {"method": method, "weights": weights, "k": k}
    names = [name for name, value in given.items() if value is not None]
    problems = []
    if names:
        problems.append(
            f"fuse: one run is cut at its depth, without method, weights and k; found "
            f"{' and '.join(names)}: remove them, or give more runs"
        )
    if depth is not None and depth < 1:
        problems.append(f"fuse: depth: expected 1 or more; found {depth}")
    if problems:
        raise InputError(problems)


def _cut(run: Run, depth: int | None) -> pa.Table:
    """The run's lines (`schema.RUN`) up to a rank, by query row and rank."""
    keep = slice(None) if depth is None else run.rank <= depth
    stages = pa.array(run.stages, pa.string()).take(pa.array(run.scored_by[keep]))
    columns = [run.queries[keep], run.rows[keep], run.rank[keep], run.scores[keep], stages]
    return pa.table(columns, schema=schema.RUN)


def _rule(
    method: str | None,
    *,
    num_runs: int,
    weights: Sequence[float] | None,
    k: float | None,
    depth: int | None,
) -> Callable[[Sequence[Ranking]], Ranking]:
    """The function that fuses one query, with its settings bound; checks all settings."""
    problems = []
    if method not in METHODS:
        problems.append(f"fuse: method: expected one of {', '.join(METHODS)}; found {method!r}")
    if not num_runs:
        problems.append("fuse: expected a run to cut, or two or more to fuse; found none")
    if weights is not None and method != "weighted":
        problems.append(f"fuse: weights are for method weighted; remove them or change {method!r}")
    if weights is not None and len(weights) != num_runs:
        problems.append(f"fuse: expected one weight per run, {num_runs}; found {len(weights)}")
    if weights is not None and not all(np.isfinite(w) and w >= 0 for w in weights):
        problems.append(f"fuse: weights: expected finite numbers from 0; found {list(weights)}")
    if weights is not None and not any(weights):
        problems.append("fuse: weights: expected one above 0, for something to rank by; found none")
    if k is not None and method != "rrf":
        problems.append(f"fuse: k is for method rrf; remove it or change {method!r}")
    if k is not None and not (np.isfinite(k) and k >= 0):
        problems.append(f"fuse: k: expected a number from 0; found {k}")
    if depth is not None and depth < 1:
        problems.append(f"fuse: depth: expected 1 or more; found {depth}")
    if problems:
        raise InputError(problems)
    if method == "weighted":
        shares = [1 / num_runs] * num_runs if weights is None else list(weights)
        return partial(weighted, weights=shares, depth=depth)
    if method == "rrf":
        return partial(reciprocal_rank, k=RRF_K if k is None else k, depth=depth)
    return partial(alternate if method == "alternate" else average, depth=depth)


def _table(query_rows: NDArray[np.int32], fused: Sequence[Ranking], scored_by: str) -> pa.Table:
    """The fused rankings as one table of `schema.RUN`."""
    lengths = [len(ranking.rows) for ranking in fused]
    queries = np.repeat(query_rows, lengths).astype(np.int32)
    rows = np.concatenate([ranking.rows for ranking in fused] or [np.empty(0, np.int64)])
    scores = np.concatenate([ranking.scores for ranking in fused] or [np.empty(0, np.float32)])
    names = pa.repeat(pa.scalar(scored_by, pa.string()), len(queries))
    return pa.table([queries, rows, ranks(queries), scores, names], schema=schema.RUN)
