"""Reranking: reorders a run's first k candidates, by scores of its lines or of keys, and keeps the
others below, in their old order."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe import schema
from raypipe.errors import InputError
from raypipe.ranking.aggregate import aggregate
from raypipe.ranking.candidates import Keys, positions
from raypipe.ranking.order import check_finite, ranks


def rerank(
    run: pa.Table,
    scores: NDArray[np.float32],
    *,
    k: int,
    tail: str,
    scored_by: str,
    failed: NDArray[np.bool_] | None = None,
    ties: str = "row",
) -> pa.Table:
    """The run (schema.RUN) with its ranks 1 to k ordered by `scores`.

    Args:
        run: schema.RUN, each query's lines together.
        scores: float32, one per line; only those of lines with a rank up to k are read.
        k: number of candidates per query that the reranker scored.
        tail: keep leaves the other lines below, in their order, with their own scores and the name
            of the stage that computed them; the two blocks' scores are never compared. drop leaves
            them out.
        scored_by: the name of this stage.
        failed: lines without a score (in quarantine), bool; they are never ranked.
        ties: what orders equal scores: the row, or the rank in the run.

    Raises:
        InputError: a score is not finite.
    """
    query_rows, rank = run["query_row"].to_numpy(), run["rank"].to_numpy()
    rows = run["passage_row"].to_numpy()
    new = rank <= k
    lines = np.arange(len(rank))
    if failed is not None:
        lines = lines[~(failed & new)]
    if tail == "drop":
        lines = lines[new[lines]]
    check_finite(scores[lines][new[lines]])
    own = np.where(new, scores, 0).astype(np.float32)
    place = np.where(new, 0, rank)  # then the tail, by its old rank
    tied = rank if ties == "rank" else rows
    order = lines[np.lexsort((tied[lines], -own[lines], place[lines], query_rows[lines]))]
    names = pa.array(
        np.where(new[order], scored_by, run["scored_by"].to_numpy(zero_copy_only=False)[order]),
        pa.string(),
    )
    kept = np.where(new, scores, run["score"].to_numpy()).astype(np.float32)[order]
    columns = [query_rows[order], rows[order], ranks(query_rows[order]), kept, names]
    return pa.table(columns, schema=schema.RUN)


def rerank_by_key(
    run: pa.Table,
    keys: Keys,
    scores: NDArray[np.float32],
    *,
    k: int,
    tail: str,
    scored_by: str,
    failed: NDArray[np.bool_] | None = None,
) -> pa.Table:
    """The run (schema.RUN) with its first k candidates in the order of a monoBERT model's scores.

    Args:
        run: schema.RUN, each query's lines together.
        keys: of the candidates, including all of rank 1 to k.
        scores: float32, one per key.
        k: see `rerank`, and so are `tail` and `scored_by`.
        failed: keys without a score (in quarantine), bool; they are never ranked.
    """
    places = positions(lines_of(run), keys)
    has_score = places >= 0
    lost = np.zeros(len(scores), bool) if failed is None else failed
    return rerank(
        run,
        np.where(has_score, _at(scores, places), np.nan).astype(np.float32),
        k=k,
        tail=tail,
        scored_by=scored_by,
        failed=has_score & (_at(lost, places) > 0),
    )


def aggregate_by_key(
    run: pa.Table,
    needed_pairs: Keys,
    scored_pairs: Keys,
    probabilities: NDArray[np.float32],
    *,
    method: str,
    k: int,
    tail: str,
    scored_by: str,
    some_failed: bool = False,
) -> pa.Table:
    """The run (schema.RUN) with its first k candidates in the order of their aggregated pairs.

    Equal scores, of which binary has many, keep the run's own order.

    Args:
        run: schema.RUN, each query's lines together.
        needed_pairs: the pairs that the method needs.
        scored_pairs: the pairs that were scored.
        probabilities: float32, p(i, j) of each scored pair.
        method: one of `vocabulary.Aggregation`.
        k: see `rerank`, and so are `tail` and `scored_by`.
        some_failed: whether pairs may be missing because they are in quarantine.

    Raises:
        InputError: pairs that the method needs are missing; the message gives their number.
    """
    places = positions(needed_pairs, scored_pairs)
    lacking = int((places < 0).sum())
    if lacking and not some_failed:
        raise InputError(
            f"{scored_by}: {lacking} of {len(places)} pairs that {method} needs were "
            "not scored; score them first, or aggregate the scored ones (k1, sample and seed as "
            "for the pairs): a missing pair is never made up"
        )
    is_scored = places >= 0
    first, second, third = (column[is_scored] for column in needed_pairs)
    queries, rows, sums = aggregate(
        (first, second, third), probabilities[places[is_scored]], method=method
    )
    lone = np.full(len(rows), -1, np.int64)
    at = positions(lines_of(run), (queries, rows, lone))
    return rerank(
        run,
        np.where(at >= 0, _at(sums, at), 0).astype(np.float32),  # a single candidate has no pair
        k=k,
        tail=tail,
        scored_by=scored_by,
        failed=(at < 0) & np.isin(run["query_row"].to_numpy(), needed_pairs[0]),
        ties="rank",
    )


def lines_of(run: pa.Table) -> Keys:
    """A run's lines as keys of a monoBERT model."""
    queries = run["query_row"].to_numpy().astype(np.int64)
    return queries, run["passage_row"].to_numpy(), np.full(len(queries), -1, np.int64)


def _at(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """values[places]; any value where a place is -1."""
    return values[places] if len(values) else np.zeros(len(places), values.dtype)
