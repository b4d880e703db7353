"""The loop at 512 actors and 10,000 shards on a virtual clock."""

import pytest
from bare_stage import BareStage
from simulated import SimulatedBackend, SimulatedLedger, World

from raypipe.cluster.backend import Task
from raypipe.cluster.loop import Loop
from raypipe.cluster.report import Limits
from raypipe.errors import IncompleteError
from raypipe.stages.stage import Needs, Stage
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec


class Nothing(Stage):
    spec = StageSpec("nothing", 1)

    def shards(self, sizing):
        return []

    def open(self, site):
        raise AssertionError("a simulated backend computes nothing")


def simulate(world, num_shards, *, seed=1, **limits):
    ledger = SimulatedLedger([Shard(i, i, i + 1) for i in range(num_shards)])
    backend = SimulatedBackend(world, ledger, seed)
    settings = Limits(**{"num_actors": world.num_actors, "max_attempts": 5, **limits})
    report = Loop(Task(Nothing(), ledger), backend, settings).run()
    return ledger, report


@pytest.mark.slow
@pytest.mark.fault(
    4, "512 workers, over 100 preemptions and 100 losses: each of 10,000 shards committed once"
)
def test_every_shard_is_committed_once_through_preemption_crashes_and_stalls():
    world = World(preempted=0.02, crashed=0.01, stalled=0.01)
    ledger, report = simulate(world, 10_000)
    assert len(ledger.commits) == 10_000
    assert set(ledger.commits.values()) == {1}
    assert report.num_done == 10_000
    assert report.num_preempted > 100 and report.num_lost > 100


def test_a_calm_cluster_is_nearly_as_fast_as_can_be():
    _, report = simulate(World(num_actors=64), 1_250)
    shards_each = -(-1_250 // 64)
    assert report.seconds < 60 + shards_each * 60 * 1.15


def test_slow_workers_get_fewer_shards_and_delay_the_end_by_little():
    _, calm = simulate(World(num_actors=64), 2_000)
    _, slow = simulate(World(num_actors=64, slow_share=0.1), 2_000)
    # 10% of workers at a quarter of the speed: 92.5% of the throughput, and one slow last shard.
    assert slow.seconds < calm.seconds / 0.9 + 4 * 70


@pytest.mark.fault(
    4, "over 50 preemptions, with one attempt allowed: 300 of 300 shards, none counted as failed"
)
def test_preemption_burns_no_attempt():
    ledger, report = simulate(World(num_actors=16, preempted=0.3), 300, max_attempts=1)
    assert len(ledger.commits) == 300
    assert report.num_preempted > 50
    assert not [note for note in ledger.notes if note["event"] == "failed"]


def test_a_shard_that_always_crashes_ends_the_invocation_and_is_named():
    with pytest.raises(IncompleteError, match=r"shard 0000\d rows .* failed 3 times"):
        simulate(World(num_actors=2, crashed=1.0), 4, max_attempts=3)


@pytest.mark.fault(
    19, "on a virtual clock every stalled worker is given up after 120 s: 100 of 100 shards"
)
def test_a_silent_worker_is_given_up_after_its_time_and_its_shard_goes_elsewhere():
    ledger, report = simulate(World(num_actors=4, stalled=0.05), 100, silent_seconds=120)
    assert len(ledger.commits) == 100
    stalls = [note for note in ledger.notes if "no heartbeat for 120 s" in str(note.get("reason"))]
    assert len(stalls) == report.num_lost > 0


def test_the_same_seed_gives_the_same_history():
    world = World(num_actors=32, preempted=0.05, crashed=0.02)
    first, second = simulate(world, 500, seed=9), simulate(world, 500, seed=9)
    assert first[0].notes == second[0].notes
    assert first[1] == second[1]


def test_work_begins_with_the_first_ready_worker():
    ledger, report = simulate(World(num_actors=100, start_seconds=(1.0, 1000.0)), 30)
    assert len(ledger.commits) == 30
    assert report.seconds < 1000


def world(shards=4, **settings):
    given = {"num_actors": 1, "start_seconds": (10.0, 10.0), "shard_seconds": (50.0, 50.0)}
    ledger = SimulatedLedger([Shard(i, i, i + 1) for i in range(shards)])
    backend = SimulatedBackend(World(**{**given, **settings}), ledger)
    task = Task(BareStage(skips_rows=False), ledger)
    return ledger, Loop(task, backend, Limits(num_actors=backend.capacity(Needs()))).run()


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [({}, 210), ({"num_actors": 2}, 110), ({"num_actors": 9}, 60), ({"slow_share": 1.0}, 810)],
)
def test_a_world_without_chance_takes_the_seconds_that_it_must(settings, seconds):
    ledger, report = world(**settings)
    assert (report.seconds, report.working_seconds) == (seconds, seconds - 10)
    assert ledger.commits == dict.fromkeys(range(4), 1)
    assert {note["seconds"] for note in ledger.notes} == {200 if "slow_share" in settings else 50}
