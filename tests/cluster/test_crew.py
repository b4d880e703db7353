"""Who computes what: at most two a shard, and nobody is lost from the books."""

import pytest

from raypipe.cluster.stragglers import Workers
from raypipe.storage.records import Shard

SHARDS = [Shard(i, i, i + 1) for i in range(3)]


@pytest.fixture
def crew():
    """1 and 2 compute shards 0 and 1, 3 waits, 4 opens."""
    found = Workers()
    for number in (1, 2, 3, 4):
        found.add(number, 0.0)
    for number in (1, 2):
        found.give(number, SHARDS[number - 1], 10.0 * number, plain=True)
    found.wait(3, 5.0)
    return found


def single(crew):
    return [(number, worker.shard.index) for number, worker in crew.single()]


def test_a_worker_opens_waits_or_computes(crew):
    assert len(crew) == 4 and crew.num_computing == 2 and list(crew.waiting) == [3]
    assert crew.workers[2].since == crew.workers[2].last_seen == 20.0
    crew.give(3, SHARDS[2], 30.0, plain=True)
    assert (crew.num_computing, list(crew.waiting), crew.workers[3].waiting) == (3, [], False)
    crew.end_try(3)
    assert crew.num_computing == 2 and crew.tries(SHARDS[2]) == []
    assert crew.remove(1) == SHARDS[0] and crew.remove(4) is None and crew.num_computing == 1
    crew.end_try(3)
    assert crew.num_computing == 1, "it computed nothing"


def test_those_that_wait_longest_come_first(crew):
    crew.end_try(1)
    crew.wait(1, 40.0)
    assert list(crew.waiting) == [3, 1] and crew.workers[1].since == 40.0
    crew.remove(3)
    assert list(crew.waiting) == [1]


def test_a_shard_has_two_tries_at_most(crew):
    assert single(crew) == [(1, 0), (2, 1)]
    crew.give(3, SHARDS[0], 50.0, plain=True)
    assert crew.tries(SHARDS[0]) == [1, 3] and single(crew) == [(2, 1)]
    assert (crew.workers[1].second, crew.workers[3].second) == (False, True)
    crew.remove(1)
    assert crew.tries(SHARDS[0]) == [3] and single(crew) == [(2, 1)], "no third in its place"
    crew.may_be_tried_again(SHARDS[0])
    assert single(crew) == [(3, 0), (2, 1)]
    crew.remove(3)
    crew.give(4, SHARDS[0], 60.0, plain=True)
    assert (4, 0) in single(crew) and not crew.workers[4].second, "a try from the beginning"


def test_a_shard_that_lost_both_tries_may_have_two_again(crew):
    crew.give(3, SHARDS[0], 50.0, plain=True)
    crew.remove(1)
    crew.remove(3)
    assert crew.tries(SHARDS[0]) == []
    crew.give(4, SHARDS[0], 60.0, plain=True)
    assert single(crew) == [(2, 1), (4, 0)]


def test_a_careful_try_or_a_probe_has_no_second(crew):
    crew.end_try(2)
    crew.give(2, SHARDS[1], 50.0, plain=False)
    assert single(crew) == [(1, 0)]


def test_who_waits_is_not_silent_and_who_opens_has_more_time(crew):
    crew.workers[1].beaten = True
    assert crew.silent(60.0, 50.0, 100.0) == []
    assert crew.silent(60.1, 50.0, 100.0) == [(1, 50.0)]
    assert crew.silent(100.1, 50.0, 100.0) == [(1, 50.0), (4, 100.0)]
    assert [number for number, _ in crew.silent(999.0, 50.0, 100.0)] == [1, 2, 4]
