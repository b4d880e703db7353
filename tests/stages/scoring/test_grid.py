"""Which pairs a grid needs beside those that were scored, against brute force."""

from dataclasses import replace
from itertools import permutations
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from raypipe import schema
from raypipe.stages.scoring.grid import Grid

FIRST = {0: [10, 11, 12, 13, 14, 15], 1: [20, 21, 22], 2: [30]}
SCORES = {10: 0.1, 11: 0.5, 12: 0.3, 13: 0.9, 14: 0.2, 15: 0.8, 20: 0.4, 21: 0.7, 22: 0.6, 30: 0.5}


def run(lists, name, score):
    lines = [(q, p, n, score(p), name) for q, ps in lists.items() for n, p in enumerate(ps, 1)]
    return pa.Table.from_pylist(
        [dict(zip(schema.RUN.names, line, strict=True)) for line in lines], schema=schema.RUN
    )


def stored(table):
    record = SimpleNamespace(shard=None)
    return SimpleNamespace(
        whole_table=lambda columns: table, num_rows=3, identity=str(len(table)), manifest=record
    )


def best(passages, k0):
    """The first k0 in the order of their scores, then the rest."""
    return [*sorted(passages[:k0], key=lambda p: -SCORES[p]), *passages[k0:]]


def needed(k0, k1):
    return {(q, *pair) for q, ps in FIRST.items() for pair in permutations(best(ps, k0)[:k1], 2)}


@pytest.fixture
def grid():
    """Six candidates were scored, and the pairs of the first three of them."""
    held = sorted(needed(6, 3))
    columns = [*zip(*held, strict=True), [0.5] * len(held)]
    pairs = pa.table([*map(pa.array, columns)], names=schema.SCORES.names).cast(schema.SCORES)
    return Grid(
        first=stored(run(FIRST, "bm25", lambda p: -float(p))),
        scored=stored(run({q: best(ps, 6) for q, ps in FIRST.items()}, "mono", SCORES.get)),
        scored_by="mono",
        tail="keep",
        pairs=stored(pairs),
        k0s=(2, 4, 6),
        k1=3,
    )


def test_the_pairs_of_every_smaller_k0_are_needed_but_for_those_that_were_scored(grid):
    found = grid.keys(0, grid.num_rows)
    keys = [*zip(*(column.tolist() for column in found), strict=True)]
    expected = (needed(2, 3) | needed(4, 3)) - needed(6, 3)
    assert keys == sorted(expected) and expected
    assert [*zip(*(column.tolist() for column in grid.keys(1, 3)), strict=True)] == keys[1:3]
    assert grid.passages().tolist() == sorted({row for key in keys for row in key[1:]})
    assert all(column.dtype == np.int64 for column in found)


def test_a_grid_is_named_by_its_settings_and_stores(grid):
    def name(grid):
        stores = {key: stored.identity for key, stored in grid.stores().items()}
        return repr((grid.to_json(), stores))

    names = {name(grid)}
    for change in ({"k0s": (2, 6)}, {"k1": 2}, {"tail": "drop"}, {"pairs": grid.first}):
        names.add(name(replace(grid, **change)))
    assert len(names) == 5
