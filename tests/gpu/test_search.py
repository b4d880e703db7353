"""Exact search on a device has the CPU's rows and scores, ties included."""

import numpy as np
import pytest
import torch

from raypipe.engines.exact import topk_block_stream
from raypipe.engines.exact_scores import NumpyProducts, checked_shards
from raypipe.errors import InputError
from raypipe.stages.products import DeviceProducts, coarse_products

DIM = 48


def vectors_of(num, seed, spread=1.0):
    drawn = np.random.default_rng(seed).standard_normal((num, DIM)) * spread
    return drawn.astype(np.float16)


def shards_of(vectors, edges):
    pieces = zip([0, *edges], [*edges, len(vectors)], strict=True)
    return [(10 * (first > 500) + first, vectors[first:last]) for first, last in pieces]


class OnDevice(DeviceProducts):
    """That notes how many queries it was given."""

    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        self.numbers = []

    def candidates(self, queries, shards, **named):
        self.numbers.append(len(queries))
        return super().candidates(queries, shards, **named)


@pytest.mark.parametrize("values", [97 * DIM, 1 << 20])
@pytest.mark.parametrize("depth", [1, 30, 5000])
def test_rows_and_scores_are_the_cpus_whatever_the_blocks(device, values, depth):
    """Shards of one row, of many and a gap between two; a depth above their number."""
    vectors, queries = vectors_of(2000, 1), vectors_of(40, 2)
    shards = shards_of(vectors, (1, 450, 1300))
    coarse = OnDevice(device, values=values)
    found = topk_block_stream(queries, shards, depth=depth, coarse=coarse)
    expected = topk_block_stream(queries, shards, depth=depth, products=NumpyProducts())
    assert coarse.numbers == [40]
    assert all(one.tobytes() == other.tobytes() for one, other in zip(found, expected, strict=True))


def test_ties_at_the_cut_go_by_row(device):
    """A passage has 600 copies, of which a query's list holds the first ones."""
    vectors, queries = vectors_of(2000, 3), vectors_of(20, 4)
    copies = np.random.default_rng(5).permutation(2000)[:600]
    vectors[copies] = queries[7]
    coarse = OnDevice(device, values=300 * DIM)
    rows, scores = topk_block_stream(queries, [(0, vectors)], depth=50, coarse=coarse)
    assert rows[7].tolist() == np.sort(copies)[:50].tolist()
    exact = (queries.astype("f8") @ vectors.astype("f8").T).astype("f4")
    order = np.argsort(-exact, axis=1, kind="stable")[:, :50]
    assert np.array_equal(rows, order)
    assert np.array_equal(scores, np.take_along_axis(exact, order, 1))


def test_its_candidates_have_the_largest_products_and_their_bounds(device):
    """In float64; what was not kept has a product of at most `last` and the error."""
    vectors, queries = vectors_of(1000, 6), vectors_of(8, 7).astype(np.float32)
    products = DeviceProducts(device, values=64 * DIM)
    shards = checked_shards(shards_of(vectors, (300, 700)), DIM)
    with products.ready():
        found = products.candidates(queries, shards, kept=25, beat=lambda: None)
    exact = queries.astype("f8") @ vectors.astype("f8").T
    lengths = np.linalg.norm(vectors.astype("f8"), axis=1)
    norms = np.linalg.norm(queries.astype("f8"), axis=1)
    assert lengths.max() <= found.norm <= lengths.max() * (1 + 1e-4) and found.moved == 0
    error = products.error(queries, norms, longest=found.norm, moved=0.0)[:, None]
    assert (np.diff(found.rows, axis=1) > 0).all()
    places = np.where(found.rows >= 710, found.rows - 10, found.rows)
    assert (np.abs(np.take_along_axis(exact, places, 1) - found.products) <= error).all()
    np.put_along_axis(exact, places, -np.inf, 1)
    assert (exact <= found.last[:, None] + error).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_is_refused_by_its_row(device, bad):
    vectors = vectors_of(300, 8)
    vectors[211, 5] = bad
    with pytest.raises(InputError, match="embedding row 1211: found NaN or infinity"):
        topk_block_stream(
            vectors_of(16, 9), [(1000, vectors)], depth=3, coarse=DeviceProducts(device)
        )


def test_the_largest_values_are_no_infinities(device):
    vectors, queries = np.full((40, DIM), 65504, np.float16), vectors_of(16, 10)
    coarse = OnDevice(device)
    rows, _ = topk_block_stream(queries, [(0, vectors)], depth=5, coarse=coarse)
    assert coarse.numbers == [16] and np.array_equal(rows, np.tile(np.arange(5), (16, 1)))


def test_blocks_are_halved_until_they_fit(device, monkeypatch):
    """Room for 100 rows of the 400; and where there is none for one, it says so."""
    vectors, queries = vectors_of(400, 11), vectors_of(16, 12)
    sizes, widened = [], DeviceProducts._widened

    def in_room(self, halves):
        sizes.append(len(halves))
        if len(halves) > room:
            raise torch.OutOfMemoryError
        return widened(self, halves)

    monkeypatch.setattr(DeviceProducts, "_widened", in_room)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    room = 100
    expected = topk_block_stream(queries, [(0, vectors)], depth=9, products=NumpyProducts())
    coarse = DeviceProducts(device, values=400 * DIM)
    found = topk_block_stream(queries, [(0, vectors)], depth=9, coarse=coarse)
    assert sizes == [400, 200, 100, 100, 100, 100]
    assert np.array_equal(found[0], expected[0]) and np.array_equal(found[1], expected[1])
    room = 0
    with pytest.raises(torch.OutOfMemoryError):
        topk_block_stream(queries, [(0, vectors)], depth=9, coarse=DeviceProducts(device))


def test_a_worker_on_a_gpu_searches_there():
    found = coarse_products("cuda", 3)
    assert type(found) is DeviceProducts and found.threads == 3
