"""Runs of documents from runs of their passages, and back.

A document's score is aggregated from those of its passages that the run holds. Sums are taken in
float64, from the best passage down, and become float32 once.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe import schema
from raypipe.ranking.order import Float32, Int64, begins, check_finite, ranks
from raypipe.vocabulary import K_MAX

Float64 = NDArray[np.float64]
SMALLEST = float(np.finfo(np.float32).smallest_subnormal)
"""A log-probability nearer to 0 is stored as 0; its log-odds are then 103.3, the most there are."""


def document_scores(
    queries: NDArray[np.integer],
    documents: Int64,
    windows: Int64,
    scores: Float32,
    *,
    method: str,
    k: int = K_MAX,
) -> tuple[Int64, Int64, Float32]:
    """(query rows, document rows, scores float32) of each document of each query, by both rows.

    maxp: the best passage's score. k-max-avgp: the mean of the k best; of all if there are fewer.
    firstp: that of the passage with the lowest window that is given. sump and avgp: the sum and
    the mean of all that are given.

    Args:
        queries: the query row of each passage, [N].
        documents: the row of the document that each is part of.
        windows: its place in the document, from 0.
        scores: float32 [N], finite.
        method: one of `vocabulary.DocumentMethod`.
        k: for k-max-avgp.

    Raises:
        InputError: a score is not finite; names the positions.

    Source: MaxP, FirstP and SumP, Dai & Callan 2019, section 3; K-Max-AvgP, CIP at TREC 2021 DL.
    """
    check_finite(scores)
    within = windows if method == "firstp" else -scores.astype(np.float64)
    by_group = np.lexsort((within, documents, queries))
    query, document = queries[by_group].astype(np.int64), documents[by_group].astype(np.int64)
    new = begins(query, document)
    starts, group = np.flatnonzero(new), np.cumsum(new) - 1
    own = scores[by_group].astype(np.float64)
    kept = np.arange(len(own)) - starts[group] < _most(method, k, len(own))
    values: Float64 = np.bincount(group[kept], own[kept], len(starts)).astype(np.float64)
    if method in ("k-max-avgp", "avgp"):
        values = values / np.bincount(group[kept], minlength=len(starts))
    return query[starts], document[starts], values.astype(np.float32)


def _most(method: str, k: int, num: int) -> int:
    """The number of a document's passages, best or first ones, that count."""
    most = {"maxp": 1, "firstp": 1, "k-max-avgp": k, "sump": num, "avgp": num}
    return most[method]


def document_run(
    run: pa.Table,
    documents: Int64,
    windows: Int64,
    *,
    method: str,
    scored_by: str,
    k: int = K_MAX,
    depth: int | None = None,
    convert: Callable[[Float32], Float64] | None = None,
) -> pa.Table:
    """The run's documents (schema.RUN), score descending, then document row ascending.

    Where a reranker left a tail below its candidates, scores of the two blocks never meet: a
    document counts in the first block that has a passage of it, by those passages alone, and the
    documents of a block come before those of the next.

    Args:
        run: schema.RUN, by query row and rank.
        documents: the document of each line, int64.
        windows: its place in the document, int64.
        method: see `document_scores`, and so is `k`.
        scored_by: the name of this stage; lines of a tail keep the name of theirs.
        k: for k-max-avgp.
        depth: documents per query; None means all.
        convert: a function of the first block's scores, applied before they are aggregated.

    Raises:
        InputError: a score is not finite; names the lines.
    """
    queries = run["query_row"].to_numpy().astype(np.int64)
    names = run["scored_by"].to_numpy(zero_copy_only=False)
    blocks = _blocks(queries, names)
    scores = run["score"].to_numpy()
    if convert is not None:
        first, scores = blocks == 0, scores.copy()
        scores[first] = convert(scores[first])
    kept = blocks == _first_blocks(queries, documents, blocks)
    # One number for a query's block: a document is in one block of a query alone.
    num_blocks = int(blocks.max(initial=0)) + 1
    parts = queries[kept] * num_blocks + blocks[kept]
    part, document, score = document_scores(
        parts, documents[kept], windows[kept], scores[kept], method=method, k=k
    )
    order = np.lexsort((document, -score, part))
    query = part[order] // num_blocks
    within = ranks(query)
    lines = order if depth is None else order[within <= depth]
    chosen = part[lines]
    _, places = np.unique(parts, return_index=True)
    name_of = dict(zip(parts[places].tolist(), names[kept][places].tolist(), strict=True))
    own = [scored_by if value % num_blocks == 0 else name_of[value] for value in chosen.tolist()]
    query = (chosen // num_blocks).astype(np.int32)
    columns = [query, document[lines], ranks(query), score[lines], pa.array(own, pa.string())]
    return pa.table(columns, schema=schema.RUN)


def log_odds(log_probabilities: Float32) -> Float64:
    """The log-odds of log-probabilities, float64: of a head of two units, their difference.

    Its error is about that of a float32, since log-probabilities near 0 are stored as finely as
    their own size; from 103.3 on, where they are stored as 0, all are 103.3.
    """
    size = np.maximum(-log_probabilities.astype(np.float64), SMALLEST)
    most = np.minimum(size, 700.0)  # expm1 of more overflows; there the two are equal
    found: Float64 = -np.log(np.expm1(most)) - (size - most)
    return found


def probabilities(log_odds: Float32) -> Float64:
    """The probability of each log-odds, float64."""
    found: Float64 = np.exp(-np.logaddexp(0.0, -log_odds.astype(np.float64)))
    return found


def passage_run(run: pa.Table, places: Int64, passages: Int64, *, scored_by: str) -> pa.Table:
    """The passages of a run's documents (schema.RUN), each with its document's score.

    Documents keep their order, and so do the passages of each.

    Args:
        run: schema.RUN of documents, by query row and rank.
        places: the line of each passage's document, ascending.
        passages: the row of each passage, by its place in the document.
        scored_by: the name of this stage.
    """
    queries, scores = (run[name].to_numpy()[places] for name in ("query_row", "score"))
    names = pa.repeat(pa.scalar(scored_by, pa.string()), len(places))
    columns = [queries, passages, ranks(queries), scores, names]
    return pa.table(columns, schema=schema.RUN)


def _blocks(queries: Int64, names: NDArray[np.object_]) -> Int64:
    """The number of changes of the scoring stage's name in each line's query, up to the line."""
    total = np.cumsum(begins(names))
    starts = np.flatnonzero(begins(queries))
    blocks: Int64 = total - np.repeat(total[starts], np.diff(np.append(starts, len(queries))))
    return blocks


def _first_blocks(queries: Int64, documents: Int64, blocks: Int64) -> Int64:
    """The first block of each line's query that has a passage of the line's document."""
    order = np.lexsort((blocks, documents, queries))
    new = begins(queries[order], documents[order])
    found = np.empty(len(order), np.int64)
    found[order] = blocks[order][np.flatnonzero(new)[np.cumsum(new) - 1]]
    return found
