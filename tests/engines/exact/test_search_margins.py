"""The margins of both passes: rows whose float32 product lies below the cut and whose exact one
does not, in tiles that also hold zero vectors."""

from fractions import Fraction

import numpy as np
import pytest

from raypipe.engines import exact as batch
from raypipe.engines.exact import topk_block_stream
from raypipe.engines.exact_scores import product_error


def near_ties(num_queries, unit, zeros_every=None):
    """4,000 passages whose large terms cancel and leave small multiples of `unit`, of which
    float32 sums lose some bits."""
    rng = np.random.default_rng(2)
    vectors = np.zeros((4000, 64), np.float16)
    vectors[:, :62] = np.repeat(rng.integers(1, 500, (4000, 31)), 2, axis=1)
    vectors[:, 1:62:2] *= -1
    vectors[:, 62] = rng.integers(0, 2000, 4000) * unit
    if zeros_every is not None:
        vectors[::zeros_every] = 0
    queries = np.abs(rng.standard_normal((num_queries, 64)))
    queries = (queries / np.linalg.norm(queries, axis=1, keepdims=True)).astype(np.float16)
    queries[:, 1:62:2] = queries[:, :62:2]
    shuffled = rng.permutation(64)
    return queries[:, shuffled], vectors[:, shuffled]


def assert_exact(found, queries, vectors):
    """By the whole matrix in float64, which is exact enough to be rounded once here."""
    exact = (queries.astype("f8") @ vectors.astype("f8").T).astype("f4")
    places = np.broadcast_to(np.arange(len(vectors)), exact.shape)
    order = np.lexsort((places, -exact), axis=-1)[:, :30]
    assert np.array_equal(found[0], order)
    assert np.array_equal(found[1], np.take_along_axis(exact, order, 1))


@pytest.mark.parametrize("zeros_every", [2, 7])
def test_near_ties_beside_zero_vectors_are_ordered_exactly(monkeypatch, zeros_every):
    second = []
    search_above = batch.search_above
    monkeypatch.setattr(
        batch,
        "search_above",
        lambda *given, **named: second.append(len(given[0])) or search_above(*given, **named),
    )
    queries, vectors = near_ties(3, 2.0**-20, zeros_every)
    shards, told = [(0, vectors[:1500]), (1500, vectors[1500:])], []
    found = topk_block_stream(queries, shards, depth=30, block_rows=512, on_second_pass=told.append)
    assert_exact(found, queries, vectors)
    assert second == told == [3], "the first pass alone cannot prove this"


def test_a_cut_within_the_error_of_the_products_is_not_taken_for_proven():
    # Of these queries about half are wrong where the last kept product alone is asked.
    queries, vectors = near_ties(40, 2.0**-18)
    assert_exact(topk_block_stream(queries, [(0, vectors)], depth=30), queries, vectors)


@pytest.mark.parametrize("dim", [1, 384, 768])
def test_the_error_of_a_product_is_its_equation(dim):
    units = Fraction(dim + 4, 2**24)
    assert product_error(dim) == pytest.approx(float(units / (1 - units)), rel=1e-14)


def test_no_product_is_off_by_more_than_the_error():
    rng = np.random.default_rng(0)
    vectors = (rng.standard_normal((500, 384)) * 10.0 ** rng.integers(-3, 4, (500, 1))).astype("f2")
    query = rng.standard_normal(384).astype("f2")
    exact = vectors.astype("f8") @ query.astype("f8")
    found = vectors.astype("f4") @ query.astype("f4")
    lengths = np.linalg.norm(vectors.astype("f8"), axis=1) * np.linalg.norm(query.astype("f8"))
    assert (np.abs(found - exact) <= product_error(384) * lengths).all()
