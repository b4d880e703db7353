import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raypipe.engines import exact as batch
from raypipe.engines import exact_scores as score
from raypipe.engines.exact import FIXED_BYTES, exact_scores_of, plan_memory, topk_block_stream
from raypipe.engines.exact_candidates import plan_spans
from raypipe.engines.exact_scores import NumpyProducts, checked_shards
from raypipe.errors import InputError
from raypipe.stages.run_tables import best, dense_table
from raypipe.storage.records import Shard


def brute(queries, vectors, depth, skip=()):
    """The whole score matrix in float64, rounded once, sorted by (score, row)."""
    scores = (queries.astype("f8") @ vectors.astype("f8").T).astype("f4")
    rows = np.broadcast_to(np.arange(len(vectors)), scores.shape)
    left = np.setdiff1d(np.arange(len(vectors)), skip)
    scores, rows = scores[:, left], rows[:, left]
    order = np.lexsort((rows, -scores), axis=-1)[:, :depth]
    found = np.full((len(queries), depth), -1), np.full((len(queries), depth), -np.inf, "f4")
    found[0][:, : order.shape[1]] = np.take_along_axis(rows, order, 1)
    found[1][:, : order.shape[1]] = np.take_along_axis(scores, order, 1)
    return found


def assert_same(found, expected):
    assert np.array_equal(found[0], expected[0])
    assert np.array_equal(found[1], expected[1])


def unit(rng, num, dim, duplicates=0.1):
    vectors = rng.standard_normal((num, dim))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    copies = rng.permutation(num)[: int(num * duplicates)]
    vectors[copies] = vectors[rng.integers(0, num, len(copies))]
    return vectors.astype(np.float16)


def shards(vectors, num_shards):
    bounds = np.linspace(0, len(vectors), num_shards + 1).astype(int)
    return [
        (int(first), vectors[first:last])
        for first, last in zip(bounds[:-1], bounds[1:], strict=True)
    ]


def merged(parts, depth):
    """The merged run as [Q, depth] arrays, where every query has as many passages."""
    tables = [dense_table(0, *found, scored_by="part") for found in parts]
    run = best(pa.concat_tables(tables), depth=depth, scored_by="merged")
    return tuple(run[name].to_numpy().reshape(-1, depth) for name in ("passage_row", "score"))


def without(blocks, skip):
    """The blocks cut around the rows to leave out, as a search cuts them around a quarantine."""
    for first, vectors in blocks:
        left = np.setdiff1d(np.arange(first, first + len(vectors)), skip)
        for rows in np.split(left, np.flatnonzero(np.diff(left) > 1) + 1):
            if len(rows):
                yield int(rows[0]), vectors[rows[0] - first : rows[-1] + 1 - first]


@pytest.fixture
def second_pass(monkeypatch):
    """Counts the queries that the first pass could not prove."""
    counted = []
    original = batch.search_above

    def counting(queries, *args, **kwargs):
        counted.append(len(queries))
        return original(queries, *args, **kwargs)

    monkeypatch.setattr(batch, "search_above", counting)
    return counted


@pytest.mark.fault(29, "shards, blocks and the order of merging change no place")
@pytest.mark.parametrize("dim", [1, 2, 17, 64])
@pytest.mark.parametrize("block_rows", [37, 500])
def test_shards_actors_blocks_and_merge_order_do_not_show(dim, block_rows):
    rng = np.random.default_rng(dim)
    vectors, queries = unit(rng, 1501, dim), unit(rng, 9, dim)
    expected = brute(queries, vectors, 60)
    for num_shards, num_actors in itertools.product((1, 3, 7), (1, 3)):
        stored = shards(vectors, num_shards)
        planned = [Shard(i, first, first + len(block)) for i, (first, block) in enumerate(stored)]
        parts = [
            topk_block_stream(
                queries,
                [(first, block) for first, block in stored if start <= first < stop],
                depth=60,
                block_rows=block_rows,
            )
            for start, stop in plan_spans(planned, num_actors)
        ]
        assert_same(merged(parts, 60), expected)
        assert_same(merged(parts[::-1], 60), expected)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_small_search_equals_brute_force(data):
    num, dim = data.draw(st.integers(0, 40)), data.draw(st.integers(1, 5))
    # Few distinct small integers: ties everywhere, and float64 is exact.
    values = st.lists(st.sampled_from([-2.0, -1.0, 0.0, 0.5, 3.0]), min_size=dim, max_size=dim)
    vectors = np.array([data.draw(values) for _ in range(num)], np.float16).reshape(num, dim)
    queries = np.array([data.draw(values) for _ in range(3)], np.float16)
    cut = data.draw(st.integers(0, num))
    depth = data.draw(st.integers(1, 45))
    skip = np.array(data.draw(st.lists(st.integers(0, 50), max_size=5)), np.int64)
    found = topk_block_stream(
        queries,
        without([(cut, vectors[cut:]), (0, vectors[:cut])], skip),
        depth=depth,
        block_rows=data.draw(st.integers(1, 50)),
    )
    assert_same(found, brute(queries, vectors, depth, skip))


@pytest.mark.parametrize("num_copies", [20, 500, 5000])
def test_a_group_of_duplicates_at_the_cut_is_taken_in_row_order(num_copies, second_pass):
    rng = np.random.default_rng(8)
    vectors, queries = unit(rng, 6000, 24, 0.0), unit(rng, 5, 24, 0.0)
    best = np.argsort(-(queries[0].astype("f8") @ vectors.astype("f8").T))
    copies = rng.permutation(np.setdiff1d(np.arange(6000), best[:40]))[:num_copies]
    vectors[copies] = vectors[best[40]]  # ranks 41 to 41 + num_copies of query 0
    told = []
    found = topk_block_stream(
        queries, shards(vectors, 3), depth=50, block_rows=700, on_second_pass=told.append
    )
    assert_same(found, brute(queries, vectors, 50))
    assert told == second_pass
    assert bool(second_pass) == (num_copies > 100)  # else the spare candidates hold the group


@pytest.mark.parametrize("value", [0.0, 0.25, -3.0])
def test_equal_vectors_come_in_row_order(value):
    vectors = np.full((3000, 16), value, np.float16)
    queries = np.ones((4, 16), np.float16) * np.array([[1], [0], [-1], [2]], np.float16)
    rows, scores = topk_block_stream(queries, shards(vectors, 7), depth=20, block_rows=999)
    assert (rows == np.arange(20)).all()
    assert scores.tolist() == [[factor * 16 * value] * 20 for factor in (1, 0, -1, 2)]


def test_near_ties_below_the_float32_error_are_ordered_exactly(second_pass):
    # 62 large terms cancel and leave a multiple of 2^-20 that float32 sums lose.
    rng = np.random.default_rng(2)
    vectors = np.empty((4000, 64), np.float16)
    vectors[:, :62] = np.repeat(rng.integers(1, 500, (4000, 31)), 2, axis=1)
    vectors[:, 1:62:2] *= -1
    vectors[:, 62] = rng.integers(0, 500, 4000) * 2.0**-20
    vectors[:, 63] = 0
    queries = np.abs(unit(rng, 3, 64, 0.0))
    queries[:, 1:62:2] = queries[:, :62:2]
    shuffled = rng.permutation(64)
    vectors, queries = vectors[:, shuffled], queries[:, shuffled]
    found = topk_block_stream(queries, shards(vectors, 3), depth=30, block_rows=512)
    assert_same(found, brute(queries, vectors, 30))
    assert second_pass == [3]


@pytest.mark.parametrize("scale", [2.0**-20, 1.0, 900.0, 12000.0])
def test_any_magnitude(scale):
    # Integers times a power of two (or whole values): float64 is exact, so plain numpy is right.
    rng = np.random.default_rng(6)
    vectors = (rng.integers(-5, 6, (2000, 32)) * scale).astype(np.float16)
    queries = (rng.integers(-5, 6, (6, 32)) * scale).astype(np.float16)
    found = topk_block_stream(queries, shards(vectors, 3), depth=40, block_rows=300)
    assert_same(found, brute(queries, vectors, 40))


def test_one_row_of_huge_norm_costs_a_second_pass_not_the_result(second_pass):
    rng = np.random.default_rng(7)
    vectors, queries = unit(rng, 3000, 48), unit(rng, 6, 48)
    vectors[1234] = 60000
    found = topk_block_stream(queries, shards(vectors, 3), depth=25, block_rows=640)
    assert_same(found, brute(queries, vectors, 25))
    assert second_pass == [6]


def test_batches_of_queries_under_little_memory_do_not_show(monkeypatch):
    rng = np.random.default_rng(9)
    vectors, queries = unit(rng, 900, 16), unit(rng, 50, 16)
    memory_bytes = FIXED_BYTES + 40_000
    assert plan_memory(memory_bytes, num_queries=50, num_rows=900, dim=16, kept=42)[0] < 10
    found = topk_block_stream(queries, [(0, vectors)], depth=10, memory_bytes=memory_bytes)
    assert_same(found, brute(queries, vectors, 10))


@given(st.integers(1, 10_000), st.integers(1, 10**8), st.integers(1, 1024), st.integers(1, 1100))
def test_the_memory_plan_stays_within_the_memory(num_queries, num_rows, dim, kept):
    memory_bytes = 200 << 20
    kept = min(kept, num_rows)
    query_rows, block_rows = plan_memory(
        memory_bytes, num_queries=num_queries, num_rows=num_rows, dim=dim, kept=kept
    )
    used = query_rows * (96 * kept + 16 * dim) + block_rows * (4 * dim + 32)
    assert 1 <= query_rows <= num_queries and 1 <= block_rows <= num_rows
    assert used + FIXED_BYTES <= memory_bytes


def test_memory_mapped_shards_with_gaps_and_skipped_rows(tmp_path):
    rng = np.random.default_rng(10)
    vectors, queries = unit(rng, 600, 8), unit(rng, 4, 8)
    vectors[[3, 250]] = np.nan  # quarantined: never read as scores
    np.save(tmp_path / "a.npy", vectors[:200])
    np.save(tmp_path / "b.npy", vectors[200:])
    stored = [
        (1000, np.load(tmp_path / "b.npy", mmap_mode="r")),
        (0, np.load(tmp_path / "a.npy", mmap_mode="r")),
    ]
    skip = np.array([1050, 3, 5000])
    blocks = without(stored, skip)
    rows, scores = topk_block_stream(queries, blocks, depth=30, block_rows=90)
    expected_rows, expected = brute(queries, np.nan_to_num(vectors), 30, [3, 250])
    assert np.array_equal(rows, expected_rows + 800 * (expected_rows >= 200))
    assert np.array_equal(scores, expected)


def test_fewer_rows_than_the_depth_leave_missing_places():
    vectors = np.array([[1.0], [2.0]], np.float16)
    rows, scores = topk_block_stream(np.ones((1, 1), np.float16), [(5, vectors)], depth=4)
    assert rows.tolist() == [[6, 5, -1, -1]]
    assert scores.tolist() == [[2.0, 1.0, -np.inf, -np.inf]]


@pytest.mark.parametrize("num_queries", [0, 2])
def test_no_queries_or_no_rows(num_queries):
    queries = np.ones((num_queries, 3), np.float16)
    for blocks in ([], [(0, np.ones((0, 3), np.float16))]):
        rows, scores = topk_block_stream(queries, blocks, depth=2)
        assert rows.tolist() == [[-1, -1]] * num_queries
        assert scores.tolist() == [[-np.inf, -np.inf]] * num_queries


@pytest.mark.fault(22, "the search itself refuses such a vector by its row")
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_without_a_score_are_refused_by_row(value):
    vectors, queries = np.ones((50, 3), np.float16), np.ones((5, 3), np.float16)
    vectors[[7, 21], 1] = value
    with pytest.raises(InputError, match="embedding row 107, 121: found NaN or infinity"):
        topk_block_stream(queries, [(100, vectors)], depth=2)
    queries[3, 2] = value
    with pytest.raises(InputError, match="query row 3: "):
        topk_block_stream(queries, [(100, np.ones((50, 3), np.float16))], depth=2)


def test_every_fault_of_the_input_is_named_at_once():
    queries = np.ones((1, 3), np.float16)
    blocks = [
        (0, np.ones((4, 2), np.float16)),
        (4, np.ones((4, 3), np.float32)),
        (8, np.ones((4, 3), np.float16)),
        (11, np.ones((4, 3), np.float16)),
    ]
    with pytest.raises(InputError) as caught:
        topk_block_stream(queries, blocks, depth=1)
    assert [problem.split(":")[0] for problem in caught.value.problems] == [
        "embeddings from row 0",
        "embeddings from row 4",
        "embeddings",
    ]
    with pytest.raises(InputError, match="depth") as caught:
        topk_block_stream(queries.astype("f4"), [], depth=0, block_rows=0)
    assert len(caught.value.problems) == 3
    with pytest.raises(InputError, match="search memory"):
        topk_block_stream(queries, blocks[2:3], depth=1, memory_bytes=1 << 20)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("piece", [1, 3, 100])
def test_pieces_and_threads_do_not_show_in_the_scores(monkeypatch, threads, piece):
    monkeypatch.setattr(score, "CACHED_VALUES", piece * 4)
    vectors = np.arange(40, dtype=np.float16).reshape(10, 4)
    queries = np.array([[1, 0, 0, 0], [0, 1, 0, -1], [1, 1, 1, 1]], np.float32)
    rows = np.array([[-1, 0, 2, 3, 5, 8, 9], [-1, -1, -1, -1, -1, -1, -1], [1, 2, 4, 5, 6, 7, 8]])
    products, beats = NumpyProducts(), []
    products.threads = threads
    found = exact_scores_of(
        queries,
        rows,
        checked_shards([(0, vectors[:4]), (4, vectors[4:])], 4),
        norm=1000.0,
        products=products,
        beat=lambda: beats.append(1),
    )
    missing = -np.inf
    assert found.tolist() == [
        [missing, 0, 8, 12, 20, 32, 36],  # the first of the four values of row r is 4 r
        [missing] * 7,
        [22, 38, 70, 86, 102, 118, 134],  # their sum is 16 r + 6
    ]
    assert len(beats) == 3
