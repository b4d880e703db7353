"""Learned sparse retrieval: a weight a word piece, stored as whole numbers, and the exact search.

An impact is the nearest whole number to 100 times a weight, as in Anserini's impact indexes, or to
the model's own `impact_scale` times it. Scores are sums of products of impacts: whole numbers,
which up to 2^24 every engine gives alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from raypipe.errors import RowsFailed
from raypipe.stages.encode import FORM, EncodeStage
from raypipe.stages.search import PartsStage, at_most_once_a_second
from raypipe.stages.stage import Beat, Payload, Rows, Site
from raypipe.storage.payloads import Flat, Offsets, concatenate, map_tokens, taken, write_tokens
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored, spec_over

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from raypipe.models.encoder import Encoder

IMPACT = 100
"""Impacts of a weight of 1, if a model's settings do not say otherwise; Anserini's of SPLADE."""
IMPACT_BITS = 12
"""Of a stored number, which has the word piece in its upper bits."""
LARGEST = (1 << IMPACT_BITS) - 1
TEXTS_AT_ONCE = 512
"""Texts whose weights of all word pieces are in memory at a time."""
PASSAGES_AT_ONCE, QUERIES_AT_ONCE = 4096, 256
SPARSE_BYTES = 4 * 150
"""Of a row: SPLADE keeps about 150 word pieces of a passage."""


@dataclass(frozen=True)
class SparseStage(EncodeStage):
    """The impacts of each row's word pieces: of a sparse model, instead of an embedding."""

    @property
    def spec(self) -> StageSpec:
        """That of the embedding, and the form of what is stored."""
        made = super().spec
        scale = f"{self.model.encoder.impact_scale or IMPACT:g}"
        key = made.reuse_key and f"{made.reuse_key}{FORM}impacts{scale}.{IMPACT_BITS}"
        params = {**made.params, "dtype": f"impacts of {scale}"}
        return replace(made, stage="sparse", semantics=1, params=params, produces="impacts",
                       reuse_key=key)  # fmt: skip

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """The estimated bytes of the payload of these rows."""
        return SPARSE_BYTES * num_rows

    def vectors_of(
        self, encoder: Encoder, flat: Flat, offsets: Offsets, beat: Beat
    ) -> tuple[Flat, Offsets]:
        """The impacts of these texts; see `impacts_of`."""
        budget = self.budget_tokens
        return impacts_of(encoder, flat, offsets, side=self.side, budget_tokens=budget, beat=beat)

    def write(
        self,
        path: Path,
        num_rows: int,
        rows: NDArray[np.int64],
        places: NDArray[np.int64],
        copied: Sequence[tuple[Path, NDArray[np.int64]]],
        made: tuple[Flat, Offsets],
    ) -> None:
        """Write a shard's impacts; see EncodeStage."""
        values = [*(taken(*map_tokens(older), of) for older, of in copied), made]
        flat, offsets = concatenate([(np.asarray(f, np.uint32), o) for f, o in values])
        order = np.full(num_rows, len(offsets) - 1)  # a row in quarantine has no word
        order[rows] = places
        write_tokens(path, *taken(flat, np.append(offsets, offsets[-1]), order))


def impacts_of(
    encoder: Encoder,
    flat: Flat,
    offsets: Offsets,
    *,
    side: str,
    budget_tokens: int | None = None,
    beat: Beat = lambda rows: None,
) -> tuple[Flat, Offsets]:
    """The impacts of texts, given by their word pieces, as `packed` has them.

    Raises:
        RowsFailed: weights that are not finite, or beyond what is stored.
    """
    parts = []
    for rows in _parts(len(offsets) - 1, TEXTS_AT_ONCE):

        def beaten(places: Rows, rows: NDArray[np.int64] = rows) -> None:
            beat(rows[list(places)].tolist())

        part = taken(flat, offsets, rows)
        try:
            found = encoder.encode(*part, side=side, budget_tokens=budget_tokens, beat=beaten)
            own = encoder.conventions
            parts.append(packed(found, own.max_terms, own.impact_scale))
        except RowsFailed as failed:
            raise RowsFailed(rows[list(failed.rows)].tolist(), failed.reason) from None
    return concatenate(parts)


def packed(
    weights: NDArray[np.float32], max_terms: int | None, scale: float | None = None
) -> tuple[Flat, Offsets]:
    """The impacts above 0, uint32 [N], and where rows begin, int64 [B + 1]; by word piece in a row.

    Args:
        weights: fp32 [B, V].
        max_terms: how many of a row's largest impacts are kept, of equal ones those of the first
            word pieces; None keeps all.
        scale: the impact of a weight of 1; None means IMPACT.

    Raises:
        RowsFailed: an impact is beyond what is stored; rows are positions in `weights`.
    """
    scale = scale or IMPACT
    # Compared before it is a whole number: no int64 holds a large one, and NaN is beyond too.
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = np.rint(weights * np.float32(scale))
    beyond = np.flatnonzero(~(rounded <= LARGEST).all(axis=1))
    if len(beyond):
        raise RowsFailed(beyond.tolist(), f"a word's weight is beyond {LARGEST / scale:g}")
    rows, terms = np.nonzero(rounded)
    impacts = rounded[rows, terms].astype(np.int64)
    if max_terms is not None:
        order = np.lexsort((terms, -impacts, rows))
        begins = np.searchsorted(rows, np.arange(len(weights)))
        kept = np.sort(order[np.arange(len(rows)) - begins[rows] < max_terms])
        rows, terms, impacts = rows[kept], terms[kept], impacts[kept]
    offsets = np.searchsorted(rows, np.arange(len(weights) + 1)).astype(np.int64)
    return (terms << IMPACT_BITS | impacts).astype(np.uint32), offsets


def unpacked(flat: Flat) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """(word pieces, impacts) of stored numbers."""
    return flat >> np.uint32(IMPACT_BITS), flat & np.uint32(LARGEST)


@dataclass(frozen=True)
class SparsePartsStage(PartsStage):
    """The best `depth` passages of each span of shards of impacts, for each query block.

    A passage without any of the query's word pieces is not found, as by Lucene.
    """

    num_words: int = 0
    """The size of the vocabulary."""

    @property
    def spec(self) -> StageSpec:
        """As PartsStage."""
        params = {"depth": self.depth, "name": self.name}
        stores = {"impacts": self.embeddings, "queries": self.queries} | self.excluded.stores()
        return spec_over("sparse-parts", 1, params, stores, produces="parts")

    def _run(self, site: Site, shard: Shard, skip: Rows, beat: Beat) -> Payload:
        queries = self.queries.tokens(shard.start, shard.stop)
        span, beaten = (shard.span_start, shard.span_stop), at_most_once_a_second(beat)
        depth = self.fetched(shard)
        found = sparse_lists(*queries, self.embeddings, span, self.num_words, depth, beaten)
        return self.payload(site, shard, *found)


def sparse_lists(
    flat: Flat,
    offsets: Offsets,
    passages: Stored,
    span: tuple[int, int],
    num_words: int,
    depth: int,
    beat: Callable[[], None] = lambda: None,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The best passages of each query, rows int64 [Q, K], -1 behind the last, and their scores.

    Sums of whole numbers below 2^53 are exact in float64. One above 2^24 is then rounded to
    float32, before passages are ordered: equal scores by row, whatever the spans are.

    Args:
        flat: the queries' impacts, as `packed` has them.
        offsets: int64 [Q + 1].
        passages: a store of impacts.
        span: the rows [start, stop) of it that are searched.
        num_words: the size of the vocabulary.
        depth: K at most.
        beat: called now and then.
    """
    lists = []
    for block in _parts(len(offsets) - 1, QUERIES_AT_ONCE):
        wanted = matrix(*taken(flat, offsets, block), num_words).T.tocsr()
        rows, scores = np.empty((0, len(block)), np.int64), np.empty((0, len(block)), "f4")
        for record, first, last in passages.overlapping(*span):
            own = map_tokens(passages.path(record))
            for part in _parts(last - first, PASSAGES_AT_ONCE):
                beat()
                found_in = matrix(*taken(*own, first + part), num_words) @ wanted
                products = found_in.toarray().astype("f4")
                numbers = record.shard.start + first + part[:, None]
                rows = np.vstack([rows, np.broadcast_to(numbers, products.shape)])
                scores = np.vstack([scores, products])
                order = np.argsort(-scores, axis=0, kind="stable")[:depth]  # ties by row
                rows = np.take_along_axis(rows, order, axis=0)
                scores = np.take_along_axis(scores, order, axis=0)
        rows[scores <= 0] = -1
        lists.append((rows.T, scores.T))
    if not lists:
        return np.empty((0, 0), np.int64), np.empty((0, 0), np.float32)
    return np.concatenate([rows for rows, _ in lists]), np.concatenate([of for _, of in lists])


def matrix(flat: Flat, offsets: Offsets, num_words: int) -> csr_matrix:
    """Rows of impacts, float64 [N, V]."""
    from scipy.sparse import csr_matrix

    terms, impacts = unpacked(flat)
    values = (impacts.astype(np.float64), terms.astype(np.int64), offsets)
    return csr_matrix(values, shape=(len(offsets) - 1, num_words))


def products_of(
    queries: NDArray[np.float32],
    passages: NDArray[np.float32],
    max_terms: int | None,
    scale: float | None,
) -> NDArray[np.float32]:
    """The score of each query with the passage of its row, float32 [B], as the search gives it.

    Args:
        queries: fp32 weights [B, V].
        passages: the same of the passages.
        max_terms: see `packed`.
        scale: see `packed`.

    Raises:
        RowsFailed: see `packed`.
    """
    num_words, given = queries.shape[1], (max_terms, scale)
    one, other = (matrix(*packed(each, *given), num_words) for each in (queries, passages))
    scores = np.asarray(one.multiply(other).sum(axis=1)).reshape(-1)
    return scores.astype(np.float32)


def _parts(num_rows: int, size: int) -> list[NDArray[np.int64]]:
    starts = range(0, num_rows, size)
    return [np.arange(start, min(start + size, num_rows)) for start in starts]
