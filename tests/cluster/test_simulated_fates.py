"""The imagined cluster by hand: what befalls a worker, and when the clock says so."""

import json

import pytest
from simulated import Memory, SimulatedBackend, SimulatedLedger, World

from raypipe.cluster.backend import Beating, Committed, Done, Lost, Mode, Preempted, Ready, Task
from raypipe.stages.stage import Needs
from raypipe.storage.records import Record, Shard

SHARD = Shard(0, 0, 8)
TASK = Task(None, None)


def backend(**world):
    given = {"start_seconds": (10.0, 10.0), "shard_seconds": (50.0, 50.0), **world}
    found = SimulatedBackend(World(**given), SimulatedLedger([SHARD]))
    assert found.start(TASK) == 1
    assert found.wait(10.0) == [Ready(1, {})] and found.now() == 10.0
    return found


def until(found, seconds):
    """Events with their times, up to so many seconds from now."""
    told, stop = [], found.now() + seconds
    while found.now() < stop:
        told += [(found.now(), event) for event in found.wait(stop - found.now())]
    return told


def test_a_worker_beats_every_20_seconds_until_its_shard_is_done():
    found = backend()
    found.submit(1, SHARD, (3, 1), Mode.PLAIN)
    record = Record(SHARD, "", 8, {"skipped_rows": [3, 1]})
    done = Done(1, SHARD, Committed(record), 50.0)
    assert until(found, 90) == [(30.0, Beating(1)), (50.0, Beating(1)), (60.0, done)]
    assert found.now() == 100.0 and found.ledger.commits == {0: 1}
    assert found.ledger.skipped == {0: (3, 1)} and found.ledger.pending() == []
    found.submit(1, SHARD, (), Mode.PLAIN)
    until(found, 60)
    assert found.ledger.commits == {0: 2}


def test_a_beat_at_the_very_end_is_none():
    found = backend(shard_seconds=(40.0, 40.0))
    found.submit(1, SHARD, (), Mode.PLAIN)
    assert [type(event) for _, event in until(found, 90)] == [Beating, Done]


def test_a_probe_commits_nothing():
    found = backend()
    found.submit(1, SHARD, (), Mode.PROBE)
    assert until(found, 90)[-1] == (60.0, Done(1, SHARD, None, 50.0))
    assert found.ledger.commits == {} and found.ledger.pending() == [SHARD]


@pytest.mark.parametrize(
    ("fate", "event"),
    [
        ("preempted", Preempted(1, "spot notice")),
        ("crashed", Lost(1, "crashed")),
        ("stalled", None),
    ],
)
def test_what_befalls_every_worker_befalls_it_before_the_shards_end(fate, event):
    found = backend(**{fate: 1.0})
    found.submit(1, SHARD, (), Mode.PLAIN)
    told = until(found, 200)
    ends = [(at, each) for at, each in told if not isinstance(each, Beating)]
    assert [each for _, each in ends] == ([] if event is None else [event])
    assert all(10 <= at < 60 for at, _ in told) and found.ledger.commits == {}
    found.submit(1, SHARD, (), Mode.PLAIN)  # a worker that has ended says nothing more
    assert event is None or until(found, 200) == []


def test_fates_are_shares_of_one_draw():
    """Of 4,000 shards a quarter each; the standard deviation of a share is 0.007."""
    found = backend(preempted=0.25, crashed=0.25, stalled=0.25)
    count = {"Preempted": 0, "Lost": 0, "Done": 0, "none": 0}
    for _ in range(4_000):
        worker = found.start(TASK)
        found.submit(worker, SHARD, (), Mode.PLAIN)
        ends = [e for _, e in until(found, 100) if e.worker == worker]
        name = next((type(e).__name__ for e in ends if not isinstance(e, Ready | Beating)), "none")
        count[name] += 1
    assert all(abs(number / 4_000 - 0.25) < 0.035 for number in count.values())


def test_a_killed_worker_says_nothing_more_and_the_clock_goes_on():
    found = backend()
    found.submit(1, SHARD, (), Mode.PLAIN)
    found.kill(1)
    assert until(found, 70) == [] and found.now() == 80.0 and found.ledger.commits == {}
    other = backend()
    other.start(TASK)
    other.close()
    assert other.wait(500.0) == [] and other.now() == 510.0


def test_events_come_one_at_a_time_in_the_order_of_time_then_of_their_making():
    found = backend()
    found.start(TASK)
    found.submit(1, SHARD, (), Mode.PLAIN)
    assert found.wait(9.0) == [] and found.now() == 19.0
    assert found.wait(1.0) == [Ready(2, {})] and found.now() == 20.0
    found.submit(2, SHARD, (), Mode.PLAIN)
    order = [(at, e.worker) for at, e in until(found, 50)]
    assert order == [(30.0, 1), (40.0, 2), (50.0, 1), (60.0, 1), (60.0, 2), (70.0, 2)]


@pytest.mark.parametrize(("skip", "fatal"), [((), [4, 5]), ((0,), [5, 6]), ((5,), [])])
@pytest.mark.parametrize("mode", list(Mode))
def test_the_first_batch_with_a_row_that_kills_is_left_written(mode, skip, fatal):
    found = backend(poison=frozenset({5, 11}), batch_rows=2)
    found.submit(1, SHARD, skip, mode)
    told = until(found, 90)
    left = found.ledger.storage._files
    if not fatal:
        assert isinstance(told[-1][1], Done) and left == {}
        return
    # Half of the shard's 50 seconds, with a beat at 20.
    assert told == [(30.0, Beating(1)), (35.0, Lost(1, "crashed"))]
    name = "nonce/simulated-0/0.rows"
    assert left == ({} if mode is Mode.PLAIN else {name: json.dumps(fatal).encode()})


def test_worlds_as_they_are_unless_told():
    world = World()
    assert (world.num_actors, world.start_seconds, world.shard_seconds) == (
        512, (20.0, 60.0), (50.0, 70.0))  # fmt: skip
    assert (world.slow_share, world.preempted, world.crashed, world.stalled) == (0, 0, 0, 0)
    assert (world.poison, world.batch_rows) == (frozenset(), 16)
    assert backend().capacity(Needs()) == 512
    slow = backend(slow_share=1.0)
    slow.submit(1, SHARD, (), Mode.PLAIN)
    assert until(slow, 300)[-1][0] == 210.0


def test_files_in_memory():
    memory = Memory()
    memory.replace("a", b"1")
    memory.replace("a", b"2")
    assert memory.read("a") == b"2"
    memory.delete("a")
    memory.delete("a")
    with pytest.raises(FileNotFoundError):
        memory.read("a")
