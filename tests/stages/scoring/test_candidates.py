"""Requests and what is found of their scores, by numbers small enough to write down."""

import pickle

import numpy as np
import pytest
from given_scores import BLOCKS, scored_of

from raypipe import schema
from raypipe.errors import IncompleteError
from raypipe.stages.scoring import candidates as candidates_of_runs
from raypipe.stages.scoring.candidates import Request, RunCandidates


@pytest.fixture
def run(stores):
    return stores.run(*BLOCKS)


def test_a_request_is_of_k0_candidates_or_of_the_pairs_of_k1(run):
    table = run.whole_table(schema.RUN)
    mono = Request(k0=2).keys(table)
    assert [part.tolist() for part in mono] == [[0, 0, 1, 1, 2], [10, 30, 20, 30, 50], [-1] * 5]
    duo = Request(k1=2).keys(table)
    assert [part.tolist() for part in duo] == [[0, 0, 1, 1], [10, 30, 20, 30], [30, 10, 30, 20]]
    assert Request(k0=7).k == 7 and Request(k1=5).k == 5
    assert len(Request(k1=4, sample=2, seed=1).keys(table)[0]) == 4 * 2 + 2


def test_a_requests_name_holds_the_seed_of_a_draw_only():
    assert Request(k1=5, seed=3).to_json() == {"k0": None, "k1": 5, "sample": None, "seed": None}
    assert Request(k1=5, sample=2, seed=3).to_json()["seed"] == 3


REQUESTS = [
    {"k0": 1}, {"k0": 3}, {"k0": 99}, {"k1": 1}, {"k1": 3}, {"k1": 9, "sample": 2, "seed": 1},
]  # fmt: skip


@pytest.mark.parametrize("request_", REQUESTS)
@pytest.mark.parametrize("seed", range(4))
def test_rows_of_candidates_are_those_of_the_whole_request(stores, request_, seed, monkeypatch):
    """Runs in 3 shards with 0 to 4 candidates a query, against the keys of all at once."""
    monkeypatch.setattr(candidates_of_runs, "BLOCK_QUERIES", 1 + seed)  # 1 to 4 of 6 queries
    lengths, blocks = np.random.default_rng(seed).integers(0, 5, (3, 2)), []
    for block, own in enumerate(lengths.tolist()):
        lines = [(2 * block + q, 7 * n % 11, -n) for q, of in enumerate(own) for n in range(of)]
        blocks.append(lines or [(2 * block, 1, 0.0)])
    run, request = stores.run(*blocks), Request(**request_)
    candidates, whole = RunCandidates(run, request), request.keys(run.whole_table(schema.RUN))
    assert candidates.num_rows == len(whole[0])
    first = singles_of(run, request.k)
    assert candidates.passages().tolist() == sorted(set(first))
    sent = pickle.loads(pickle.dumps(candidates))
    for start in range(candidates.num_rows + 1):
        for stop in range(start, candidates.num_rows + 1):
            found = sent.keys(start, stop)
            assert [c.tolist() for c in found] == [c[start:stop].tolist() for c in whole]


def singles_of(run, k):
    """The passages of the first k of each query."""
    lines = run.whole_table(schema.RUN).to_pylist()
    return [line["passage_row"] for line in lines if line["rank"] <= k]


def keys(*lines):
    return tuple(np.array([line[side] for line in lines], np.int64) for side in range(3))


LINES = [(0, 5, -1, 0.5), (0, 9, -1, 0.25), (1, 5, -1, 0.75), (2, 7, -1, 1.0)]


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_scores_are_found_by_query_and_quarantine_is_told(stores, cut):
    scored = scored_of(stores, LINES, blocks=[cut], skipped=[1])
    wanted = keys((2, 7, -1), (0, 9, -1), (0, 5, -1), (1, 5, -1))
    scores, failed = scored.find(wanted, (0, 3), what="mono")
    np.testing.assert_array_equal(scores, np.array([1, np.nan, 0.5, 0.75], "f4"))
    assert failed.tolist() == [False, True, False, False]
    for query in range(3):
        own = keys(*(line[:3] for line in LINES if line[0] == query and line[1] != 9))
        scores, failed = scored.find(own, (query, query + 1), what="mono")
        assert np.isfinite(scores).all() and not failed.any()


def test_candidates_without_a_score_are_counted_and_never_made_up(stores):
    scored = scored_of(stores, LINES)
    wanted = keys((0, 5, -1), (0, 7, -1), (5, 5, -1))
    with pytest.raises(IncompleteError, match="mono: 2 of 3 candidates have no score"):
        scored.find(wanted, (0, 6), what="mono")
