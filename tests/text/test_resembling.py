"""A small BM25 over a sample: what matches, and what comes first."""

import math

import numpy as np
import pytest

from raypipe.text.resembling import Resembling, _as_kept

PASSAGES = ["a zebra", "lease lease of shards", "a lease", "nothing here", "a zebra and its lease"]


def test_the_matching_passages_of_each_query_are_counted_once_each():
    found = Resembling(["zebra lease", "shard", "the", "unknown"], PASSAGES).num_matching()
    assert found.tolist() == [4, 1, 0, 0]


def test_the_first_passages_have_the_largest_scores_and_ties_the_smallest_position():
    rows, scores = Resembling(["lease", "the"], [*PASSAGES, "a lease"]).first(3)
    assert rows.tolist() == [[1, 2, 5], [-1, -1, -1]]
    assert scores[0, 1] == scores[0, 2] and scores[1].tolist() == [0, 0, 0]


def test_scores_are_those_of_bm25():
    rows, scores = Resembling(["zebra"], PASSAGES).first(9)
    assert rows.tolist() == [[0, 4, -1, -1, -1]]
    lengths = np.array([1, 3, 1, 2, 3])  # without stop words
    idf = math.log(1 + (5 - 2 + 0.5) / (2 + 0.5))
    wanted = [idf / (1 + 0.9 * (0.6 + 0.4 * lengths[n] / lengths.mean())) for n in (0, 4)]
    assert scores[0, :2] == pytest.approx(wanted, rel=1e-5)


def test_an_empty_sample_matches_nothing():
    found = Resembling(["zebra"], [])
    assert found.num_matching().tolist() == [0] and found.first(2)[0].shape == (1, 0)


def test_lengths_are_kept_exactly_up_to_40_and_with_four_bits_from_there_on():
    lengths = np.array([0.0, 1, 40, 41, 56, 57, 300, 307])
    assert _as_kept(lengths).tolist() == [0, 1, 40, 40, 56, 56, 280, 280]
