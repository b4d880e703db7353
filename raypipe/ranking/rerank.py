"""Reranking: reorders a run's first k candidates and keeps the others below, in their old order."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe import schema
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
