"""Near the end: who tries a late shard too, who waits for one, who goes."""

import pytest

from raypipe.cluster.report import Limits
from raypipe.cluster.stragglers import Pace, Stragglers, Workers
from raypipe.storage.records import Shard

SHARDS = [Shard(i, 10 * i, 10 * i + 10) for i in range(4)]


@pytest.fixture
def crew():
    """Workers 1 and 2 compute shards 0 and 1 since second 0 and 6; one takes 10 seconds."""
    found = Workers()
    for number in range(1, 8):
        found.add(number, 0.0)
    found.give(1, SHARDS[0], 0.0, plain=True)
    found.give(2, SHARDS[1], 6.0, plain=True)
    return found


def tail(crew, **limits):
    pace = Pace(dict.fromkeys(range(4), 10.0))
    pace.done(9, SHARDS[3], 10.0, 0)
    return Stragglers(
        crew, pace, Limits(**{"least_late_seconds": 5.0, "spare_seconds": 60.0, **limits})
    )


def tried(found, now):
    return [(number, late.shard.index) for number, late in found.second_tries(now)]


def test_a_late_shard_goes_to_the_one_that_waits_longest_and_the_latest_first(crew):
    assert tried(tail(crew), 99.0) == [], "nobody waits"
    crew.wait(5, 1.0)
    crew.wait(4, 2.0)
    assert tried(tail(crew), 15.0) == []
    assert tried(tail(crew), 15.1) == [(5, 0)]
    assert tried(tail(crew), 21.1) == [(5, 0), (4, 1)]
    assert tried(tail(crew, least_late_seconds=16.0), 15.9) == []
    crew.give(5, SHARDS[0], 21.0, plain=True)
    assert tried(tail(crew), 21.1) == [(4, 1)]


def test_one_may_wait_for_each_shard_that_could_be_late(crew):
    assert tail(crew).not_needed(10.0) == []
    for number in (3, 4, 5):
        crew.wait(number, float(number))
    assert tail(crew).not_needed(10.0) == [5]
    crew.end_try(1)
    assert tail(crew).not_needed(10.0) == [4, 5]
    crew.end_try(2)
    assert tail(crew).not_needed(10.0) == [3, 4, 5]


def test_nobody_waits_longer_than_allowed(crew):
    crew.wait(3, 3.0)
    crew.wait(4, 4.0)
    assert tail(crew).not_needed(63.0) == []
    assert tail(crew).not_needed(63.5) == [3]
    assert tail(crew).not_needed(99.0) == [3, 4]


def test_a_late_shard_that_nobody_waits_for_is_worth_a_new_worker(crew):
    assert [tail(crew).num_late(now) for now in (15.0, 15.1, 21.1)] == [0, 1, 2]
    crew.wait(3, 3.0)
    assert tail(crew).num_late(21.1) == 0
