"""Fuses several runs into one."""

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from raypipe.api.inputs import Given, Run, count_of, listed_runs, number_of, texts_of
from raypipe.errors import InputError
from raypipe.ranking.by_id import fuse_by_id
from raypipe.vocabulary import DEPTH, FusionMethod


def fuse(
    runs: Sequence[Run] | Mapping[str, Run],
    method: FusionMethod = "rrf",
    *,
    weights: Sequence[float] | None = None,
    k: float | None = None,
    depth: int = DEPTH,
    passages: Given | None = None,
) -> pa.Table:
    """One run over the union of the queries: query_id, passage_id, rank from 1, score float32.

    Ties are ordered by the position in `passages`, as in a pipeline; without `passages` by
    ascending passage id, as strings, as in `raypipe fuse`.

    Args:
        runs: two or more tables, dictionaries or paths; their order matters for alternate and
            weighted.
        method: alternate, rrf, weighted or average.
        weights: for weighted, one per run, from 0; equal by default.
        k: the constant of rrf, for it only; 60 by default.
        depth: number of passages per query.
        passages: the passages that the runs rank, as in `search`.

    Raises:
        InputError: bad runs or settings, or passages of a run that are not among `passages`.
    """
    ids = None if passages is None else texts_of(passages, "passage").ids
    return fuse_by_id(
        listed_runs(runs),
        method=method,
        passages=ids,
        weights=None if weights is None else _weights(weights),
        k=None if k is None else number_of("k", k, low=0),
        depth=count_of("depth", depth),
    )


def _weights(given: object) -> list[float]:
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise InputError(f"weights: expected a list of numbers, one per run; found {given!r}")
    return [number_of(f"weights: number {i}", weight) for i, weight in enumerate(given, start=1)]
