"""Candidates' scores are those of all pieces of their vectors, whichever thread gathers them."""

import numpy as np
import pytest

from raypipe.engines import exact_scores as score
from raypipe.engines.exact import exact_scores_of
from raypipe.engines.exact_scores import NumpyProducts, checked_shards


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
