"""Boundaries that follow the content, on collections of numbered texts."""

import hashlib
import itertools
import random

import pytest

from raypipe.stages.ids import ids_stage
from raypipe.stages.reuse import boundaries
from raypipe.stages.reuse.boundaries import shards_by_content


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Small collections are cut like large ones."""
    monkeypatch.setattr(boundaries, "LEAST_ROWS", 8)


def cut(stores, texts, work=1 << 30):
    hashes = stores.finished(ids_stage(stores.passages(texts)))
    shards = shards_by_content(len(texts), work, hashes)
    assert [s.index for s in shards] == [*range(len(shards))]
    assert [s.start for s in shards] == [0, *(s.stop for s in shards[:-1])]
    assert shards[-1].stop == len(texts)
    return shards


def contents(shards, texts):
    return [tuple(texts[s.start : s.stop]) for s in shards]


TEXTS = [f"text {n}" for n in range(2000)]


def test_shards_have_half_to_twice_the_wanted_size(stores):
    sizes = [s.num_rows for s in cut(stores, TEXTS)]  # 2,000 / 64, as a power of two: 16
    assert min(sizes[:-1]) >= 8 and max(sizes) <= 32 and len(set(sizes)) > 5
    assert 12 <= 2000 / len(sizes) <= 20


def test_the_work_of_a_shard_limits_the_wanted_size(stores):
    sizes = [s.num_rows for s in cut(stores, TEXTS, work=7)]  # as a power of two: 4
    assert min(sizes[:-1]) >= 2 and max(sizes) <= 8
    assert {s.num_rows for s in cut(stores, TEXTS[:5], work=1)} <= {1, 2}


def test_a_change_moves_only_the_boundaries_near_it(stores):
    before = set(contents(cut(stores, TEXTS), TEXTS))
    for changed in (["new", *TEXTS], TEXTS[1:], [*TEXTS[:900], "new", *TEXTS[901:]]):
        after = contents(cut(stores, changed), changed)
        assert sum(shard not in before for shard in after) <= 4


def test_equal_texts_are_cut_at_the_largest_size(stores):
    sizes = {s.num_rows for s in cut(stores, ["same"] * 640)}
    assert sizes in ({8}, {16})  # at the least size if their hash says so


@pytest.mark.parametrize("seed", range(20))
def test_boundaries_depend_on_texts_alone(stores, seed):
    rng = random.Random(seed)
    texts = [rng.choice("abcdefgh") for _ in range(rng.randrange(1, 40))]
    work = rng.randrange(1, 10)
    edges = sorted(rng.randrange(len(texts) + 1) for _ in range(3))
    parts = [texts[a:b] for a, b in itertools.pairwise([0, *edges, len(texts)])]
    hashes = stores.finished(ids_stage(stores.passages(*parts)))
    assert shards_by_content(len(texts), work, hashes) == cut(stores, texts, work)


@pytest.mark.parametrize(
    ("num_rows", "work", "expected"),
    [
        (10, 4, [(0, 3), (3, 6), (6, 10)]),
        (3, 9, [(0, 3)]),
        (0, 5, [(0, 0)]),
        (2, 0, [(0, 1), (1, 2)]),
    ],
)
def test_without_hashes_the_shards_are_even_ranges(num_rows, work, expected):
    shards = shards_by_content(num_rows, work, None)
    assert [(s.start, s.stop) for s in shards] == expected


def by_hand(texts, wanted):
    """Boundaries from one row to the next: by bytes 8 to 16 of each hash, after half the size."""
    edges = [0]
    for row, text in enumerate(texts):
        number = int.from_bytes(hashlib.sha256(text.encode()).digest()[8:16], "little")
        size = row - edges[-1]
        if size == 2 * wanted or (size >= wanted // 2 and number % (wanted // 2) == 0):
            edges += [row] if row else []
    return [*edges, len(texts)]


@pytest.mark.parametrize(("num_rows", "wanted"), [(2000, 16), (600, 8), (1024, 16), (17, 8)])
def test_boundaries_are_those_of_a_plain_search(stores, num_rows, wanted):
    texts = TEXTS[:num_rows]
    assert [0, *(s.stop for s in cut(stores, texts))] == by_hand(texts, wanted)


def test_a_collection_of_some_thousands_is_cut_into_hundreds(stores, monkeypatch):
    monkeypatch.undo()
    assert [0, *(s.stop for s in cut(stores, TEXTS))] == by_hand(TEXTS, 512)


def test_a_collection_without_passages_is_one_empty_shard(stores):
    assert [(s.start, s.stop) for s in cut(stores, [])] == [(0, 0)]
