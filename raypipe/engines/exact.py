"""Exact top k by inner product over embedding shards, however the work is divided.

The first pass multiplies and selects in float32, one block at a time, and keeps more candidates
than requested. These are scored again, exactly, from the stored fp16 values. If the candidates
provably contain the answer, it is final; the other queries, whose cut may split a group of ties,
get a second pass (`search_above`). On CPUs that multiply bfloat16, a still coarser pass goes before
the first and settles most queries. On a GPU, a pass that multiplies and selects there does so.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue

import numpy as np
from numpy.typing import NDArray

from raypipe.engines.exact_candidates import (
    OwnCandidates,
    Rows,
    Scores,
    candidates,
    in_order,
    ordered,
)
from raypipe.engines.exact_scores import (
    Block,
    Floats,
    NumpyProducts,
    Products,
    Scratch,
    ShardVectors,
    checked_shards,
    exact_scores,
    float32_blocks,
    gather,
    product_error,
    refuse_nonfinite,
    rounded,
    upper_norms,
    widen,
)
from raypipe.errors import InputError

MEMORY_BYTES = 2 << 30
"""The limit where none is given; with many threads twice the fixed part of each."""
FIXED_BYTES = 96 << 20
"""Memory of each thread for products, what is above the floors and gathered candidates."""
CANDIDATE_BYTES = 96
"""Memory per kept candidate of one query: a list with twice as many, their order, the result."""
MAX_BATCH_QUERIES = 1024
"""Casting for each batch again costs 3% of the products of so many queries of 768 dimensions."""
DEVICE_QUERIES = 8192
"""Queries of a batch on a GPU, to which every vector is copied once for each batch."""
MAX_BLOCK_ROWS = 8192
BLOCK_VALUES = 1 << 19
"""Values of a block, and its products: 2 MB each, which a core's caches hold or nearly so."""


def num_kept(depth: int, num_rows: int, *, coarse: bool = False) -> int:
    """Number of candidates kept for `depth` places: some to spare, at most all rows.

    Near rank 1000 of 8.8M, scores of 768-d vectors are about 1/11 of twice the error bound apart;
    the other candidates allow for duplicates. Among random vectors of length 1, the products of a
    coarse pass in bfloat16 need 1.4 times the depth there. Too few cost another pass, but never a
    result.
    """
    spare = 64 + depth // 2 if coarse else 32 + depth // 16
    return min(num_rows, depth + spare)


def plan_memory(
    memory_bytes: int | None,
    *,
    num_queries: int,
    num_rows: int,
    dim: int,
    kept: int,
    threads: int = 1,
    most_queries: int = MAX_BATCH_QUERIES,
) -> tuple[int, int]:
    """(queries per batch, rows per block) that fit the memory; see MEMORY_BYTES for None.

    A block has as many rows as the caches hold, of vectors and of products with a batch.

    Raises:
        InputError: one query and a block of one row do not fit.
    """
    if memory_bytes is None:
        memory_bytes = max(MEMORY_BYTES, 2 * threads * FIXED_BYTES)
    row_bytes = threads * (4 * dim + 32)
    query_bytes = CANDIDATE_BYTES * kept + 16 * dim
    free = memory_bytes - threads * FIXED_BYTES
    least = query_bytes + 2 * row_bytes
    if free < least:
        raise InputError(
            f"search memory: found {memory_bytes} bytes, expected at least "
            f"{threads * FIXED_BYTES + least} for {kept} candidates of dimension {dim}; raise the "
            "memory or lower the depth"
        )
    most_queries = min(num_queries, most_queries)
    usual = min(most_queries, MAX_BATCH_QUERIES)
    wanted = max(1, min(MAX_BLOCK_ROWS, BLOCK_VALUES // max(dim, usual)))
    block_rows = min(num_rows, wanted, free // 2 // row_bytes)
    return min(most_queries, (free - block_rows * row_bytes) // query_bytes), block_rows


TILE_QUERIES = 256
TILE_ROWS = 8192
"""Number of products held at a time: 8 MB."""


@dataclass(slots=True)
class Best:
    """The exact top list of one query over the rows seen so far."""

    rows: Rows
    scores: Scores
    floor: float
    """A row enters only with an exact inner product above this."""


def search_above(
    queries: NDArray[np.float32],
    norms: NDArray[np.float64],
    floors: Scores,
    blocks: Iterable[Block],
    *,
    depth: int,
    error: float,
) -> tuple[Rows, Scores]:
    """The exact top lists of queries, given lower bounds for their true depth-th scores.

    Every row whose product could reach the floor is scored exactly, block by block, so a group of
    ties of any size costs one pass and no memory. Rows come in ascending order: once a list is
    full, an equal score can no longer enter.

    Args:
        queries: float32 [Q, D], fp16 values.
        norms: [Q], from `upper_norms`.
        floors: float32 [Q]; at least `depth` rows have this score or a higher one.
        blocks: all rows once, ascending.
        depth: columns of the result.
        error: a float32 product is off by at most `error` |query| |passage|.

    Returns:
        rows int64 [Q, depth], scores float32 [Q, depth]: by descending score, ties by row.
    """
    below = np.nextafter(floors, np.float32(-np.inf)).astype(np.float64)
    best = [Best(np.empty(0, np.int64), np.empty(0, np.float32), floor) for floor in below]
    exact = queries.astype(np.float64)
    for block in _tiles(blocks):
        for start in range(0, len(queries), TILE_QUERIES):
            some = slice(start, start + TILE_QUERIES)
            products = queries[some] @ block.vectors.T
            slack = error * norms[some] * block.norms.max()
            floor = np.array([entry.floor for entry in best[some]]) - slack
            near = products >= _rounded_down(floor)[:, np.newaxis]
            for query in np.flatnonzero(near.any(axis=1)):
                entry, places = best[start + query], np.flatnonzero(near[query])
                reach = products[query, places] + error * norms[start + query] * block.norms[places]
                _enter(entry, exact[start + query], block, places[reach > entry.floor], depth)
    return np.stack([entry.rows for entry in best]), np.stack([entry.scores for entry in best])


def _tiles(blocks: Iterable[Block]) -> Iterator[Block]:
    for block in blocks:
        for start in range(0, len(block.rows), TILE_ROWS):
            cut = slice(start, start + TILE_ROWS)
            yield Block(block.rows[cut], block.vectors[cut], block.norms[cut])


def _rounded_down(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """The values as float32, rounded down."""
    return np.nextafter(values.astype(np.float32), np.float32(-np.inf))


def _enter(
    entry: Best, query: NDArray[np.float64], block: Block, places: NDArray[np.intp], depth: int
) -> None:
    """Score the rows at `places` exactly; keep the best `depth` of these and the earlier rows."""
    if not len(places):
        return
    norm = float(block.norms[places].max())
    scores = exact_scores(query, block.vectors[places], norm)
    rows, scores = ordered(
        np.concatenate([entry.rows, block.rows[places]])[np.newaxis],
        np.concatenate([entry.scores, scores])[np.newaxis],
    )
    entry.rows, entry.scores = rows[0, :depth], scores[0, :depth]
    if len(entry.rows) == depth:
        entry.floor = max(entry.floor, float(entry.scores[-1]))


Memory = tuple[NDArray[np.float16], Scratch]


def exact_scores_of(
    queries: Floats,
    rows: Rows,
    shards: Sequence[ShardVectors],
    *,
    norm: float,
    products: Products,
    beat: Callable[[], None],
) -> Scores:
    """The correctly rounded inner products of queries and their candidates, float32 [Q, kept].

    -inf where a row is missing.

    A piece is gathered, cast and summed while it is in the cache, in memory that every query of a
    thread uses again.

    Args:
        queries: float32 [Q, D], fp16 values.
        rows: [Q, kept], ascending for each query but for missing ones, which are -1; every other
            row is in some shard.
        shards: as `checked_shards` returns them.
        norm: not below the length of any candidate.
        products: the library that casts, ready.
        beat: called before each query.
    """
    scores = np.full(rows.shape, -np.inf, np.float32)
    dim, kept = queries.shape[1], rows.shape[1]
    free: SimpleQueue[Memory] = SimpleQueue()
    for _ in range(products.threads):
        scratch = Scratch(dim, kept)
        free.put((np.empty((scratch.rows, dim), np.float16), scratch))

    def of(query: int) -> Scores:
        halves, scratch = memory = free.get()
        try:
            vector, passages = queries[query].astype(np.float64), rows[query][rows[query] >= 0]
            sums = np.empty(len(passages), np.float64)
            for start in range(0, len(passages), scratch.rows):
                some = slice(start, start + scratch.rows)
                vectors = gather(shards, passages[some], halves[: len(passages[some])])
                scratch.sums(vector, vectors, products.widen, sums[some])
            return rounded(sums, vector, norm, lambda places: gather(shards, passages[places]))
        finally:
            free.put(memory)

    for query, found in enumerate(in_order(of, range(len(rows)), products.threads)):
        beat()
        scores[query, rows[query] >= 0] = found
    return scores


Places = NDArray[np.intp]
LEAST_QUERIES = 16
"""Fewer queries take as long to read the vectors as to multiply them, in any precision."""
MOST_UNSETTLED = 1 / 8
"""Where a coarse pass leaves more of the queries than this, the next batches do without it."""


@dataclass(slots=True)
class BatchSearch:
    """A search of these shards; see `topk_block_stream`."""

    shards: Sequence[ShardVectors]
    depth: int
    block_rows: int
    products: Products
    coarse: Products | None
    beat: Callable[[], None]
    on_second_pass: Callable[[int], None]

    @property
    def _num_rows(self) -> int:
        return sum(len(shard.vectors) for shard in self.shards)

    def found(self, queries: Floats, norms: NDArray[np.float64]) -> tuple[Rows, Scores]:
        """The rows and exact scores of one batch [Q, at most depth].

        A query whose candidates are not proven to hold its answer goes on to the next pass: the
        coarse one, that of `products`, and the second pass, which needs no proof.
        """
        width = min(self.depth, self._num_rows)
        rows = np.empty((len(queries), width), np.int64)
        scores = np.empty(rows.shape, np.float32)
        left = np.arange(len(queries))
        if self.coarse is not None and len(queries) >= LEAST_QUERIES:
            left = self._pass(self.coarse, queries, norms, rows, scores, left)
            if len(left) > MOST_UNSETTLED * len(queries):
                self.coarse = None
        if len(left):
            left = self._pass(self.products, queries, norms, rows, scores, left)
        if len(left):
            self.on_second_pass(len(left))
            rows[left], scores[left] = search_above(
                queries[left],
                norms[left],
                scores[left, -1],
                self._blocks(queries.shape[1]),
                depth=self.depth,
                error=product_error(queries.shape[1]),
            )
        return rows, scores

    def _pass(
        self,
        products: Products,
        queries: Floats,
        norms: NDArray[np.float64],
        rows: Rows,
        scores: Scores,
        positions: Places,
    ) -> Places:
        """Write the best candidates of the queries at `positions`.

        A query has `depth` rows with a product not below `cut`, so a score not below it, less the
        error: candidates further below it are not scored. A row that was not kept has a product of
        at most `last`, so a score of at most `last` and the error. A candidate that is further off
        than that denies the proof of its query, whatever the library promises.

        Returns:
            the positions of the queries without a proof.
        """
        queries, norms = queries[positions], norms[positions]
        num_rows, width = self._num_rows, rows.shape[1]
        kept = num_kept(self.depth, num_rows, coarse=products is self.coarse)
        if isinstance(products, OwnCandidates):
            propose = products.candidates
        else:
            propose = partial(candidates, block_rows=self.block_rows, products=products)
        with products.ready():
            proposals = propose(queries, self.shards, kept=kept, beat=self.beat)
            error = products.error(queries, norms, longest=proposals.norm, moved=proposals.moved)
            places = slice(kept - width, kept - width + 1)
            cut = np.partition(proposals.products, kept - width, axis=1)[:, places]
            near = _above(proposals.products, error, products) >= _below(cut, error, products)
            exact = exact_scores_of(
                queries,
                np.where(near, proposals.rows, -1),
                self.shards,
                norm=proposals.norm,
                products=products,
                beat=self.beat,
            )
        best = ordered(np.where(near, proposals.rows, -1), exact)
        rows[positions], scores[positions] = (of[:, :width] for of in best)
        above = _above(proposals.products, error, products) >= exact
        below = _below(proposals.products, error, products) <= exact
        unproven = ~(above & below | ~near).all(axis=1)
        if kept < num_rows:
            unproven |= _above(proposals.last, error, products) >= scores[positions, -1]
        return positions[np.flatnonzero(unproven)]

    def _blocks(self, dim: int) -> Iterator[Block]:
        for block in float32_blocks(self.shards, np.empty((self.block_rows, dim), np.float32)):
            self.beat()
            yield block


def _above(sums: Floats, error: NDArray[np.float64], products: Products) -> NDArray[np.float64]:
    """Upper bounds of the scores whose products were found, [Q] or [Q, n]; `error` is [Q]."""
    far = error if sums.ndim == 1 else error[:, np.newaxis]
    values = sums.astype(np.float64)
    return values + products.rounding * np.abs(values) + far


def _below(sums: Floats, error: NDArray[np.float64], products: Products) -> NDArray[np.float64]:
    """Lower bounds of the scores whose products were found."""
    return -_above(-sums, error, products)


def topk_block_stream(
    queries: NDArray[np.float16],
    blocks: Iterable[tuple[int, NDArray[np.float16]]],
    *,
    depth: int,
    block_rows: int | None = None,
    memory_bytes: int | None = None,
    products: Products | None = None,
    coarse: Products | None = None,
    beat: Callable[[], None] = lambda: None,
    on_second_pass: Callable[[int], None] = lambda number: None,
) -> tuple[Rows, Scores]:
    """The `depth` best passages of each query and their scores, exact.

    The score is the inner product of the stored fp16 values, rounded once to float32. The order is
    descending score, then ascending row. Shards, blocks, query batches, threads and memory do not
    affect the result. It equals `(Q.astype("f8") @ E.astype("f8").T).astype("f4")` wherever that is
    itself correctly rounded: always if |query| |passage| <= 32.

    Args:
        queries: [Q, D].
        blocks: for each shard (row of the collection of its first vector, fp16 [n, D]), in any
            order, disjoint. All are held during the search and read more than once: if they do not
            fit the memory, give memory-mapped arrays.
        depth: number of places per query.
        block_rows: number of vectors cast to float32 at a time; by default chosen by the memory.
        memory_bytes: limit for what is allocated here, without the result and the shards; by
            default 2 GiB, or more with many threads.
        products: the library of the first pass, by default numpy.
        coarse: a faster library with larger errors, tried before it for as long as it settles most
            of the queries.
        beat: called again and again while the search goes on.
        on_second_pass: called with the number of queries of a batch that need a second pass. It
            depends on the rounding of the products, the result does not.

    Returns:
        rows int64 [Q, depth] and scores float32 [Q, depth]; missing places last, -1 and -inf.

    Raises:
        InputError: shapes or dtypes that do not fit, shards that share a row, a NaN or an
            infinity in a query or a passage, or too little memory.
    """
    _check(queries, depth, block_rows)
    shards = checked_shards(blocks, queries.shape[1])
    num_rows = sum(len(shard.vectors) for shard in shards)
    rows: Rows = np.full((len(queries), depth), -1, np.int64)
    scores: Scores = np.full((len(queries), depth), -np.inf, np.float32)
    vectors = np.empty(queries.shape, np.float32)
    widen(queries, vectors)
    norms = upper_norms(vectors)
    refuse_nonfinite("query", np.arange(len(queries)), vectors, norms)
    if num_rows == 0 or len(queries) == 0:
        return rows, scores
    products = products or NumpyProducts()
    query_rows, planned = plan_memory(
        memory_bytes,
        num_queries=len(queries),
        num_rows=num_rows,
        dim=queries.shape[1],
        kept=num_kept(depth, num_rows, coarse=coarse is not None),
        threads=products.threads,
        most_queries=DEVICE_QUERIES if isinstance(coarse, OwnCandidates) else MAX_BATCH_QUERIES,
    )
    search = BatchSearch(
        shards,
        depth=depth,
        block_rows=min(block_rows or planned, num_rows),
        products=products,
        coarse=coarse,
        beat=beat,
        on_second_pass=on_second_pass,
    )
    for start in range(0, len(queries), query_rows):
        some = slice(start, start + query_rows)
        found = search.found(vectors[some], norms[some])
        rows[some, : found[0].shape[1]], scores[some, : found[0].shape[1]] = found
    return rows, scores


def _check(queries: NDArray[np.float16], depth: int, block_rows: int | None) -> None:
    problems = []
    if queries.ndim != 2 or queries.dtype != np.float16 or queries.shape[1] < 1:
        problems.append(
            f"query embeddings: found {queries.dtype} {list(queries.shape)}, "
            "expected float16 [queries, dimension]"
        )
    if depth < 1:
        problems.append(f"search depth: found {depth}, expected at least 1")
    if block_rows is not None and block_rows < 1:
        problems.append(f"search block_rows: found {block_rows}, expected at least 1")
    if problems:
        raise InputError(problems)
