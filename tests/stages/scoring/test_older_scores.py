"""Older scores found by texts, on letters: whatever row and query they once had."""

import numpy as np
import pytest

from raypipe import schema
from raypipe.stages.ids import ids_stage
from raypipe.stages.scoring.older_scores import OlderScores, ScoresByText
from raypipe.storage.store import Stored


def keys(*lines):
    return tuple(np.array([line[i] for line in lines], np.int64) for i in range(3))


class World:
    """Older tables and a present collection, with stores made in one folder."""

    def __init__(self, stores):
        self.stores = stores

    def hashes(self, *texts):
        return self.stores.finished(ids_stage(self.stores.passages(texts)))

    def older(self, passages, queries, *blocks, skipped=(), numerics="here"):
        """A part with a shard for each block of lines (query, passage, other, score)."""
        tables = [[[line[i] for line in block] for i in range(4)] for block in blocks]
        facts = [
            {
                "rows": len(block),
                "first_query": min((line[0] for line in block), default=-1),
                "last_query": max((line[0] for line in block), default=-1),
                "numerics": numerics,
            }
            for block in blocks
        ]
        scores = self.stores.tables(schema.SCORES, *tables, facts=facts, skipped=skipped)
        return OlderScores(scores, self.hashes(*passages), self.stores.queries(*queries))

    def found(self, older, passages, queries, *lines, numerics="here"):
        source = ScoresByText(
            older, self.hashes(*passages), self.stores.queries(*queries), numerics
        )
        scores = source.find(keys(*lines)).tolist()
        return [None if np.isnan(score) else score for score in scores]


@pytest.fixture
def world(stores):
    return World(stores)


def test_a_score_is_found_by_the_texts_of_query_and_passage(world):
    older = world.older("abc", ["q", "r"], [(0, 0, -1, 1.0), (0, 2, -1, 2.0)], [(1, 0, -1, 3.0)])
    lines = [(0, 1, -1), (0, 2, -1), (1, 1, -1), (1, 2, -1), (1, 0, -1), (2, 1, -1)]
    # Now: queries r, q, s; passages x, a, c.
    assert world.found([older], "xac", ["r", "q", "s"], *lines) == [3.0, None, 1.0, 2.0, None, None]


def test_a_pair_is_found_in_its_order_only(world):
    older = world.older("ab", ["q"], [(0, 0, 1, 0.25)])
    assert world.found([older], "ba", ["q"], (0, 1, 0), (0, 0, 1), (0, 1, -1)) == [0.25, None, None]
    older = world.older("ab", ["q"], [(0, 1, 0, 0.5)])  # the second passage is row 0
    assert world.found([older], "ba", ["q"], (0, 1, 0), (0, 0, 1), (0, 1, -1)) == [None, 0.5, None]


def test_a_pair_with_a_new_passage_is_not_taken_for_a_single(world):
    older = world.older("ab", ["q"], [(0, 0, -1, 0.25)])
    assert world.found([older], "ax", ["q"], (0, 0, 1), (0, 1, 0), (0, 0, -1)) == [None, None, 0.25]


def test_equal_texts_share_a_score_whichever_row_held_it(world):
    older = world.older("aba", ["q", "q"], [(1, 2, -1, 0.5)])
    assert world.found([older], "aab", ["q", "q"], (0, 0, -1), (1, 1, -1)) == [0.5, 0.5]


def test_scores_of_another_numerics_class_are_not_taken(world):
    older = world.older("a", ["q"], [(0, 0, -1, 1.0)], numerics="there")
    assert world.found([older], "a", ["q"], (0, 0, -1)) == [None]


def test_the_first_part_that_has_a_score_gives_it(world):
    first = world.older("ab", ["q"], [(0, 0, -1, 1.0)])
    second = world.older("ba", ["q"], [(0, 0, -1, 2.0), (0, 1, -1, 9.0)])
    assert world.found([first, second], "ab", ["q"], (0, 0, -1), (0, 1, -1)) == [1.0, 2.0]
    assert world.found([], "ab", ["q"], (0, 0, -1)) == [None]


def test_nothing_is_found_in_an_empty_part_or_for_no_candidates(world):
    older = world.older("a", ["q"], [])
    assert world.found([older], "a", ["q"], (0, 0, -1)) == [None]
    assert world.found([older], "a", ["q"]) == []


def test_only_shards_with_the_wanted_queries_are_read(world, monkeypatch):
    blocks = [[(query, 0, -1, float(query))] for query in range(4)]
    older, read = world.older("a", list("qrst"), *blocks), []
    path = Stored.path
    monkeypatch.setattr(Stored, "path", lambda s, r: read.append(r.shard.index) or path(s, r))
    source = ScoresByText([older], world.hashes("a"), world.stores.queries(*"qrst"), "here")
    read.clear()
    assert source.find(keys((1, 0, -1), (2, 0, -1))).tolist() == [1.0, 2.0] and read == [1, 2]


def test_candidates_of_equal_texts_have_one_key(world):
    source = ScoresByText([], world.hashes(*"aba"), world.stores.queries("q", "q"), "here")
    lines = [(0, 0, -1), (0, 2, -1), (1, 0, -1), (0, 0, 1), (0, 2, 1), (0, 1, 0)]
    found = [tuple(row) for row in source.text_keys(keys(*lines)).tolist()]
    assert found[0] == found[1] and found[3] == found[4] and len(set(found)) == 4
