"""Rows that kill or have no value: found, quarantined, and the rest is computed."""

import math
import random

import pytest
from bare_stage import BareStage
from scripted_loop import CAREFUL, PLAIN, PROBE, SHARDS, Scripted, done, play
from simulated import SimulatedBackend, SimulatedLedger, World

from raypipe.cluster.backend import (
    Done,
    Failed,
    Lost,
    Preempted,
    Ready,
    Task,
)
from raypipe.cluster.failures import read_evidence
from raypipe.cluster.loop import Loop
from raypipe.cluster.report import Limits, report_of
from raypipe.errors import IncompleteError, RowsFailed
from raypipe.storage.records import Shard


def survived(worker, index):
    return Done(worker, SHARDS[index], None, 1.0)


def test_rows_without_a_value_are_left_out_of_the_next_try():
    failed = Failed(1, SHARDS[0], RowsFailed([3, 4], "not finite"))
    script = [Ready(1, {}), failed, Ready(2, {}), done(2, 0), done(2, 1), done(2, 2)]
    found = play(*script, skips_rows=True, max_attempts=1)
    assert found.error is None
    assert [s[1:] for s in found.backend.submitted[:2]] == [(0, (), PLAIN), (0, (3, 4), PLAIN)]
    assert found.ledger.notes[:2] == [
        {"event": "quarantined", "shard": 0, "row": 3, "reason": "not finite"},
        {"event": "quarantined", "shard": 0, "row": 4, "reason": "not finite"},
    ]
    assert "failed 1 times" in str(play(*script[:2], max_attempts=1).error)


def leaving(script, batches, max_attempts):
    """Ledger, backend, and report or error; a worker that dies leaves its batch written."""
    ledger = SimulatedLedger(SHARDS[:1])
    backend = Scripted(ledger, script)
    lost = backend.wait

    def wait(seconds):
        events = lost(seconds)
        for event in events:
            if isinstance(event, Lost) and event.worker in batches:
                ledger.storage.replace("nonce/simulated-0/0.rows", batches[event.worker])
        return events

    backend.wait = wait
    task = Task(BareStage(skips_rows=True), ledger)
    try:
        return ledger, backend, Loop(task, backend, Limits(max_attempts=max_attempts)).run()
    except IncompleteError as error:
        return ledger, backend, error


def test_a_killing_row_is_looked_for_in_the_batch_that_was_left_written():
    """Row 7 kills: a careful try, then halves of the batch 6, 7, and 7 alone."""
    script = [Ready(1, {}), Lost(1, "died"), Ready(2, {}), Lost(2, "died"), Ready(3, {})]
    script += [survived(3, 0), Preempted(3, "spot"), Ready(4, {}), Lost(4, "died"), Ready(5, {})]
    every = tuple(range(10))
    ledger, backend, report = leaving([*script, done(5, 0)], {2: b"[6, 7]", 4: b"[7]"}, 2)
    assert [s[1:] for s in backend.submitted] == [
        (0, (), PLAIN),
        (0, (), CAREFUL),
        (0, tuple(r for r in every if r != 6), PROBE),
        (0, tuple(r for r in every if r != 7), PROBE),
        (0, tuple(r for r in every if r != 7), PROBE),
        (0, (7,), CAREFUL),
    ]
    assert {n["row"]: n["reason"] for n in ledger.notes if n["event"] == "quarantined"} == {
        7: "its worker died: died"
    }
    assert (report.num_lost, report.num_preempted, report.num_done) == (3, 1, 1)


def test_deaths_over_rows_that_are_harmless_when_probed_count_as_a_failure():
    """Beside the first death: the next try is of the whole shard, until there were too many."""
    script = [Ready(1, {}), Lost(1, "died"), Ready(2, {}), Lost(2, "died"), Ready(3, {})]
    script += [survived(3, 0), survived(3, 0)]
    ledger, backend, report = leaving([*script, done(3, 0)], {2: b"[6, 7]"}, 3)
    assert backend.submitted[-1][1:] == (0, (), CAREFUL) and report.num_done == 1
    failed = [(n["attempt"], n["reason"]) for n in ledger.notes if n["event"] == "failed"]
    unexplained = "RuntimeError('its worker died over rows that are harmless')"
    assert failed == [(1, "RuntimeError('died')"), (2, unexplained)]
    *_, error = leaving(script, {2: b"[6, 7]"}, 2)
    assert str(error).endswith(f" failed 2 times; the last time: {unexplained}")


def test_what_a_careful_worker_left_written_goes_with_its_commit():
    ledger = SimulatedLedger(SHARDS[:1])

    class Writing(Scripted):
        def submit(self, worker, shard, skip, mode):
            super().submit(worker, shard, skip, mode)
            if mode is CAREFUL:
                ledger.storage.replace("nonce/simulated-0/0.rows", b"[1]")

    backend = Writing(ledger, [Ready(1, {}), Lost(1, "died"), Ready(2, {}), done(2, 0)])
    Loop(Task(BareStage(skips_rows=True), ledger), backend, Limits()).run()
    assert backend.submitted[-1][-1] is CAREFUL and ledger.commits == {0: 1}
    assert read_evidence(ledger, SHARDS[0]) == ()


def simulate(world, num_shards=6, rows=64, seed=0, **limits):
    shards = [Shard(i, i * rows, (i + 1) * rows) for i in range(num_shards)]
    ledger = SimulatedLedger(shards)
    backend = SimulatedBackend(world, ledger, seed=seed)
    task = Task(BareStage(skips_rows=True), ledger)
    report = Loop(task, backend, Limits(num_actors=3, **limits)).run()
    return ledger, report


@pytest.mark.fault(
    16, "3 killing rows in each of 25 jobs are found, by at most 3 log2(batch) deaths each"
)
def test_each_killing_row_is_found_after_few_deaths_and_the_rest_is_committed():
    for seed in range(25):
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


@pytest.mark.fault(16, "15 jobs with deaths of other causes: no row in quarantine")
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
    task = Task(BareStage(skips_rows=True), ledger)
    with pytest.raises(IncompleteError, match="failed 3 times"):
        Loop(task, Naming(World(num_actors=1), ledger), Limits()).run()


def test_a_stage_that_skips_no_rows_fails_as_before():
    world = World(num_actors=3, poison=frozenset({5}))
    ledger = SimulatedLedger([Shard(0, 0, 64)])
    task = Task(BareStage(skips_rows=False), ledger)
    with pytest.raises(IncompleteError, match="failed 3 times"):
        Loop(task, SimulatedBackend(world, ledger), Limits()).run()


def test_what_stands_of_a_store_is_told_in_shards_and_rows():
    shards = [Shard(0, 0, 5), Shard(1, 5, 12), Shard(2, 12, 13)]
    found = report_of(shards, [shards[1]])
    assert (found.num_planned, found.num_reused, found.num_done) == (3, 2, 0)
    assert (found.num_rows_planned, found.num_rows_reused, found.num_rows) == (13, 6, 0)
