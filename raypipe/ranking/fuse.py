"""Fusion of whole runs: from several tables of `schema.RUN` to one, query by query."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe import schema
from raypipe.errors import InputError
from raypipe.ranking.order import Float32, Int64, check_finite, ranks
from raypipe.ranking.rules import Ranking, alternate, average, reciprocal_rank, weighted
from raypipe.vocabulary import RRF_K, FusionMethod, words

METHODS = words(FusionMethod)
"""The methods of `fuse_tables`, by their names on the command line and in recipes."""


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
    method: str,
    scored_by: str,
    weights: Sequence[float] | None = None,
    k: float | None = None,
    depth: int | None = None,
) -> pa.Table:
    """One run (`schema.RUN`) over the union of the runs' queries, by query row, best first.

    Args:
        runs: tables of `schema.RUN`; the rank column decides the order; lines may be in any order.
        method: one of `METHODS`; `raypipe.ranking.rules` has each one's equation.
        scored_by: the name of the fusing stage, for every line of the result.
        weights: one per run, from 0 but not all 0, for `weighted` only; None gives each run 1 /
            number of runs.
        k: the constant of `rrf`, from 0, for it only; None is 60.
        depth: passages kept per query; None keeps all.

    Raises:
        InputError: bad arguments, or a run with a NaN, a repeated passage, ranks that are not
            1..n, or (for weighted and average) a query whose scores come from several stages.
    """
    rule = _rule(method, num_runs=len(runs), weights=weights, k=k, depth=depth)
    opened = [Run(table, name=f"run {number}") for number, table in enumerate(runs, start=1)]
    problems = [problem for run in opened for problem in run.problems()]
    if method in ("weighted", "average"):
        problems += [problem for run in opened for problem in run.mixed_scales()]
    if problems:
        raise InputError(problems)
    query_rows = np.unique(np.concatenate([run.query_rows for run in opened]))
    fused = [rule([run.ranking(row) for run in opened]) for row in query_rows.tolist()]
    return _table(query_rows, fused, scored_by)


def _rule(
    method: str,
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
    if num_runs < 2:
        problems.append(f"fuse: expected two runs or more; found {num_runs}")
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
