"""Requests, their parts and their scores, by numbers small enough to write down."""

import numpy as np
import pytest
from given_scores import BASE, BLOCKS, lines_of, part_of

from raypipe import schema
from raypipe.errors import IncompleteError
from raypipe.stages.scoring.candidates import (
    CandidatesStage,
    Part,
    candidates_spec,
    find_scores,
    keys_of,
)
from raypipe.stages.scoring.requests import Request
from raypipe.storage.spec import StageSpec


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


def test_a_requests_name_holds_the_seed_of_a_draw_only(run):
    assert Request(k1=5, seed=3).to_json() == {"k0": None, "k1": 5, "sample": None, "seed": None}
    assert Request(k1=5, sample=2, seed=3).to_json()["seed"] == 3
    assert Request(k1=5, seed=3).digest(run) == Request(k1=5, seed=4).digest(run)
    drawn = {Request(k1=5, sample=2, seed=seed).digest(run) for seed in (3, 4)}
    assert len(drawn) == 2 and Request(k0=5).digest(run) != Request(k1=5).digest(run)


def test_a_part_gives_its_keys_by_row_and_its_scores_by_query(stores):
    lines = [(0, 10, -1, 0.5), (0, 30, -1, 0.25), (1, 20, -1, 0.75), (3, 5, -1, 1.0)]
    part = part_of(stores, lines, blocks=[2, 3])
    assert part.num_rows == 4
    assert [k.tolist() for k in part.keys(1, 3)] == [[0, 1], [30, 20], [-1, -1]]
    assert keys_of(part.scored())[0].tolist() == [0, 0, 1, 3]
    assert part.scored((1, 2))["score"].to_pylist() == [0.75]
    assert part.scored((0, 1))["score"].to_pylist() == [0.5, 0.25]
    assert part.scored((2, 3)).num_rows == 0 and part.scored((3, 9)).num_rows == 1
    assert part.scored((0, 2)).num_rows == 3
    assert Part(part.candidates, None).scored() == schema.SCORES.empty_table()
    assert [k.tolist() for k in part.failed()] == [[], [], []]


def test_what_is_in_quarantine_has_failed_and_has_no_score(stores):
    lines = [(0, 10, -1, 0.5), (0, 30, -1, 0.25), (1, 20, -1, 0.75)]
    part = part_of(stores, lines, skipped=[1])
    assert [k.tolist() for k in part.failed()] == [[0], [30], [-1]]
    wanted = part.keys()
    scores, failed = find_scores([part], wanted, (0, 2), what="x")
    assert failed.tolist() == [False, True, False]
    assert scores[[0, 2]].tolist() == [0.5, 0.75] and np.isnan(scores[1])


def test_a_candidate_that_failed_once_and_was_scored_by_another_part_has_a_score(stores):
    first = part_of(stores, [(0, 10, -1, 0.5), (0, 30, -1, 0.25)], skipped=[1])
    second = part_of(stores, [(0, 30, -1, 0.125)])
    scores, failed = find_scores([first, second], first.keys(), (0, 1), what="x")
    assert scores.tolist() == [0.5, 0.125] and not failed.any()


def test_candidates_without_a_score_are_counted_and_refused(stores):
    part = part_of(stores, [(0, 10, -1, 0.5)])
    wanted = (np.array([0, 0, 1]), np.array([10, 30, 10]), np.array([-1, -1, -1]))
    with pytest.raises(IncompleteError, match="x: 2 of 3 candidates have no score"):
        find_scores([part], wanted, (0, 2), what="x")
    with pytest.raises(IncompleteError, match="3 of 3"):
        find_scores([], wanted, (0, 2), what="x")


def test_a_part_is_what_the_request_wants_and_no_part_before_has(stores, run):
    held = part_of(stores, [(0, 30, -1, 0.5), (1, 20, -1, 0.25), (2, 50, -1, 0.125)], skipped=[1])
    first = CandidatesStage(BASE, 1, run, Request(k0=2), ())
    made = stores.finished(first)
    assert lines_of(made, schema.CANDIDATES) == [
        (0, 10, -1), (0, 30, -1), (1, 20, -1), (1, 30, -1), (2, 50, -1),
    ]  # fmt: skip
    beats = []
    second = CandidatesStage(BASE, 2, run, Request(k0=3), (held,))
    left = stores.finished(second, beats=beats)
    # Of 20 for query 1 the score failed: it is not tried again.
    assert lines_of(left, schema.CANDIDATES) == [(0, 10, -1), (0, 20, -1), (1, 30, -1)]
    facts = left.manifest.records[0].facts
    assert facts["rows"] == 3 and facts["wanted"] == 6 and beats == [[], []]
    assert facts["request"] == Request(k0=3).digest(run)
    assert left.manifest.records[0].shard.num_rows == 1


def test_the_number_of_a_part_and_its_table_name_it_and_the_request_does_not(stores, run):
    one = CandidatesStage(BASE, 1, run, Request(k0=2), ()).spec
    assert one == CandidatesStage(BASE, 1, run, Request(k0=3), ()).spec == candidates_spec(BASE, 1)
    assert one.fingerprint() != candidates_spec(BASE, 2).fingerprint()
    other = StageSpec("scores", 1, {"weights_sha256": "v"})
    assert one.fingerprint() != candidates_spec(other, 1).fingerprint()
