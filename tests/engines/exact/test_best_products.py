import numpy as np
import pytest

from raypipe.engines.exact_candidates import BestProducts


def entered(best, scores, first=0):
    """Enters a block as the first pass does: what is above the floors, by query."""
    queries, places = np.nonzero(scores > best.floor[:, np.newaxis])
    best.enter(queries, places + first, scores[queries, places])


@pytest.mark.parametrize("order", ["random", "ascending", "descending", "equal"])
@pytest.mark.parametrize("kept", [1, 7, 60])
@pytest.mark.parametrize("block", [1, 9, 400])
def test_the_largest_are_kept_whatever_comes_first(order, kept, block):
    rng = np.random.default_rng(kept)
    scores = rng.standard_normal((70, 400)).astype(np.float32)
    if order == "equal":
        scores[:] = 0.5
    elif order != "random":
        scores.sort(axis=1)
        scores = scores if order == "ascending" else scores[:, ::-1]
    best = BestProducts(70, kept)
    floors = [best.floor.copy()]
    for start in range(0, 400, block):
        entered(best, scores[:, start : start + block], start)
        assert (best.floor >= floors[-1]).all()
        floors.append(best.floor.copy())
    best.cut()
    assert (best.counts == kept).all()
    found = np.sort(best.products[:, :kept], axis=1)
    assert np.array_equal(found, np.sort(scores, axis=1)[:, -kept:])
    rows = best.rows[:, :kept]
    assert np.array_equal(np.take_along_axis(scores, rows, 1), best.products[:, :kept])
    assert all(len(set(row)) == kept for row in rows.tolist())
    assert np.array_equal(best.floor, found[:, 0])


def test_lists_that_are_not_full_have_no_floor():
    best = BestProducts(2, 3)
    best.enter(np.array([0, 0, 0, 1]), np.array([0, 1, 2, 0]), np.arange(4, dtype=np.float32))
    best.cut()
    assert best.floor.tolist() == [0.0, -np.inf] and best.counts.tolist() == [3, 1]
