"""Rows that kill or have no value: found, quarantined, and the rest is computed."""

import math
import random
from types import SimpleNamespace

import pytest

from raypipe.cluster.backend import Done, Failed, Task
from raypipe.cluster.loop import Limits, run
from raypipe.cluster.simulated import SimulatedBackend, SimulatedLedger, World
from raypipe.errors import IncompleteError, RowsFailed
from raypipe.stages.stage import Needs
from raypipe.storage.records import Shard


def simulate(world, num_shards=6, rows=64, seed=0, **limits):
    shards = [Shard(i, i * rows, (i + 1) * rows) for i in range(num_shards)]
    ledger = SimulatedLedger(shards)
    backend = SimulatedBackend(world, ledger, seed=seed)
    task = Task(SimpleNamespace(skips_rows=True, needs=Needs()), ledger)
    report = run(task, backend, Limits(num_actors=3, **limits))
    return ledger, report


@pytest.mark.parametrize("seed", range(25))
def test_each_killing_row_is_found_after_few_deaths_and_the_rest_is_committed(seed):
    rng = random.Random(seed)
    batch = rng.choice([2, 3, 8, 16, 64])
    # One in a shard of its own, and two together.
    poison = {rng.randrange(64)} | set(rng.sample(range(128, 192), 2))
    world = World(num_actors=3, poison=frozenset(poison), batch_rows=batch)
    ledger, report = simulate(world, seed=seed)
    assert {row for rows in ledger.skipped.values() for row in rows} == poison
    assert all(count == 1 for count in ledger.commits.values()) and len(ledger.commits) == 6
    # Two deaths before anything is known of a shard, a halving each, and one alone once more.
    bound = math.ceil(math.log2(batch)) + (batch >= 4)
    assert report.num_lost <= 2 * (2 + bound) + (1 + bound)
    assert 2 + bound <= 3 * math.log2(batch)
    found = {n["row"]: n["reason"] for n in ledger.notes if n["event"] == "quarantined"}
    assert found.keys() == poison and all("died" in reason for reason in found.values())


@pytest.mark.parametrize("seed", range(15))
def test_preemption_and_stalls_convict_nobody(seed):
    world = World(num_actors=3, preempted=0.3, stalled=0.05, crashed=0.05)
    ledger, _ = simulate(world, num_shards=30, seed=seed, max_attempts=20)
    assert all(rows == () for rows in ledger.skipped.values())
    assert len(ledger.commits) == 30


def test_a_stage_that_names_no_new_row_is_not_asked_for_ever():
    class Naming(SimulatedBackend):
        def wait(self, seconds):
            events = super().wait(seconds)
            return [
                Failed(e.worker, e.shard, RowsFailed([3], "always")) if isinstance(e, Done) else e
                for e in events
            ]

    ledger = SimulatedLedger([Shard(0, 0, 64)])
    task = Task(SimpleNamespace(skips_rows=True, needs=Needs()), ledger)
    with pytest.raises(IncompleteError, match="failed 3 times"):
        run(task, Naming(World(num_actors=1), ledger), Limits())


def test_a_stage_that_skips_no_rows_fails_as_before():
    world = World(num_actors=3, poison=frozenset({5}))
    ledger = SimulatedLedger([Shard(0, 0, 64)])
    task = Task(SimpleNamespace(needs=Needs()), ledger)
    with pytest.raises(IncompleteError, match="failed 3 times"):
        run(task, SimulatedBackend(world, ledger), Limits())
