"""The first stage's scores of an example's passages: z of a blend, s = a z + f."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from raypipe.ranking.blend import first_stage
from raypipe.ranking.order import begins
from raypipe.training.examples.rankings import Ranking, Taught
from raypipe.training.examples.table import Examples, Int32, Int64


def with_first_stages(
    examples: Examples, runs: Sequence[Ranking], *, last: int, none: bool, seed: int
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
    chosen = np.repeat(_drawn(examples.query_rows, len(runs) + none, seed), examples.num_passages)
    found = np.zeros(len(passages), np.float32)
    for number, run in enumerate(runs):
        own = chosen == number
        scores = Taught(_normalised(run, last)).of_pairs(queries[own], passages[own])
        found[own] = np.nan_to_num(scores)
    return replace(examples, first_stage=found.reshape(examples.passage_rows.shape))


def _drawn(query_rows: Int32, number: int, seed: int) -> Int64:
    """One of so many choices for each example."""
    starts = np.flatnonzero(begins(query_rows))
    counts = np.diff(np.append(starts, len(query_rows)))
    # 1: another stream than that of the query's negatives.
    draws = [
        np.random.default_rng([seed, query, 1]).integers(number, size=count)
        for query, count in zip(query_rows[starts].tolist(), counts.tolist(), strict=True)
    ]
    return np.concatenate([np.empty(0, np.int64), *draws])


def _normalised(run: Ranking, last: int) -> Ranking:
    """The run with z instead of its scores."""
    found = first_stage(run.query_rows, run.ranks, run.scores, last=last)
    return replace(run, scores=found.astype(np.float32))
