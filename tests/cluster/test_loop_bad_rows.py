from types import SimpleNamespace

from scripted_loop import CAREFUL, PLAIN, PROBE, SHARDS, Scripted, done, play

from raypipe.cluster.backend import (
    Done,
    Failed,
    Lost,
    Preempted,
    Ready,
    Task,
)
from raypipe.cluster.bad_rows import read_evidence
from raypipe.cluster.loop import Limits, run
from raypipe.cluster.simulated import SimulatedLedger
from raypipe.errors import RowsFailed
from raypipe.stages.stage import Needs


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


def test_a_killing_row_is_looked_for_in_the_batch_that_was_left_written():
    """Row 7 kills: a careful try, then halves of the batch 6, 7, and 7 alone."""
    ledger_name = "nonce/simulated-0/0.rows"

    def left(script):
        ledger = SimulatedLedger(SHARDS[:1])
        backend = Scripted(ledger, script)
        lost = backend.wait

        def wait(seconds):
            events = lost(seconds)
            for event in events:
                if isinstance(event, Lost):
                    rows = {1: None, 2: b"[6, 7]", 4: b"[7]"}[event.worker]
                    if rows is not None:
                        ledger.storage.replace(ledger_name, rows)
            return events

        backend.wait = wait
        task = Task(SimpleNamespace(skips_rows=True, needs=Needs()), ledger)
        return ledger, backend, run(task, backend, Limits(max_attempts=2))

    script = [Ready(1, {}), Lost(1, "died"), Ready(2, {}), Lost(2, "died"), Ready(3, {})]
    script += [survived(3, 0), Lost(3, "died")]
    every = tuple(range(10))
    script = script[:6] + [Preempted(3, "spot"), Ready(4, {}), Lost(4, "died"), Ready(5, {})]
    ledger, backend, report = left([*script, done(5, 0)])
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


def test_what_a_careful_worker_left_written_goes_with_its_commit():
    ledger = SimulatedLedger(SHARDS[:1])

    class Writing(Scripted):
        def submit(self, worker, shard, skip, mode):
            super().submit(worker, shard, skip, mode)
            if mode is CAREFUL:
                ledger.storage.replace("nonce/simulated-0/0.rows", b"[1]")

    backend = Writing(ledger, [Ready(1, {}), Lost(1, "died"), Ready(2, {}), done(2, 0)])
    run(Task(SimpleNamespace(skips_rows=True, needs=Needs()), ledger), backend, Limits())
    assert backend.submitted[-1][-1] is CAREFUL and ledger.commits == {0: 1}
    assert read_evidence(ledger, SHARDS[0]) == ()
