import numpy as np
import pyarrow as pa

from raypipe import schema
from raypipe.report.measures import places_of


def run_of(pairs):
    queries, passages = ([*column] for column in zip(*pairs, strict=True)) if pairs else ([], [])
    ranks, scores, stages = [1] * len(pairs), [0.0] * len(pairs), ["x"] * len(pairs)
    columns = (queries, passages, ranks, scores, stages)
    return pa.table([*columns], schema=schema.RUN)


def test_each_line_has_its_place_among_the_pairs():
    rng = np.random.default_rng(5)
    for size in (1, 3, 40):
        pairs = sorted({(int(q), int(p)) for q, p in rng.integers(0, 9, (size, 2))})
        lines = [(int(q), int(p)) for q, p in rng.integers(0, 12, (200, 2))]
        wanted = np.array(pairs, np.int64)
        expected = [pairs.index(line) if line in pairs else -1 for line in lines]
        assert places_of(run_of(lines), wanted[:, 0], wanted[:, 1]).tolist() == expected


def test_rows_as_large_as_they_become_are_told_apart():
    top, last = 2**31 - 1, 138_364_198
    wanted = np.array([[top - 1, last], [top, 0], [top, last]], np.int64)
    run = run_of([(top, last), (top - 1, last), (top, 1), (0, last), (top, 0)])
    assert places_of(run, wanted[:, 0], wanted[:, 1]).tolist() == [2, 0, -1, -1, 1]


def test_nothing_is_among_nothing():
    none = np.empty(0, np.int64)
    assert places_of(run_of([(0, 0)]), none, none).tolist() == [-1]
    assert places_of(run_of([]), np.array([0]), np.array([0])).tolist() == []
