from types import SimpleNamespace

import pytest

from raypipe.cluster.backend import (
    Task,
)
from raypipe.cluster.loop import Limits, run
from raypipe.cluster.simulated import SimulatedBackend, SimulatedLedger, World
from raypipe.stages.stage import Needs
from raypipe.storage.records import Shard


def world(shards=4, **settings):
    given = {"num_actors": 1, "start_seconds": (10.0, 10.0), "shard_seconds": (50.0, 50.0)}
    ledger = SimulatedLedger([Shard(i, i, i + 1) for i in range(shards)])
    backend = SimulatedBackend(World(**{**given, **settings}), ledger)
    task = Task(SimpleNamespace(needs=Needs()), ledger)
    return ledger, run(task, backend, Limits(num_actors=backend.capacity(Needs())))


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [({}, 210), ({"num_actors": 2}, 110), ({"num_actors": 9}, 60), ({"slow_share": 1.0}, 810)],
)
def test_a_world_without_chance_takes_the_seconds_that_it_must(settings, seconds):
    ledger, report = world(**settings)
    assert (report.seconds, report.working_seconds) == (seconds, seconds - 10)
    assert ledger.commits == dict.fromkeys(range(4), 1)
    assert {note["seconds"] for note in ledger.notes} == {200 if "slow_share" in settings else 50}


def test_two_backends_of_no_named_seed_and_of_seed_0_have_one_history():
    def history(**seed):
        ledger = SimulatedLedger([Shard(i, i, i + 1) for i in range(20)])
        backend = SimulatedBackend(World(num_actors=3, crashed=0.1), ledger, **seed)
        task = Task(SimpleNamespace(needs=Needs()), ledger)
        run(task, backend, Limits(num_actors=3, max_attempts=9))
        return ledger.notes

    assert history() == history(seed=0) != history(seed=1)
