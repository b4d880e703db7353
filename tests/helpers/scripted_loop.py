"""A backend that plays given events to the loop."""

from types import SimpleNamespace

from bare_stage import BareStage
from simulated import SimulatedLedger

from raypipe.cluster.backend import (
    Committed,
    Done,
    Mode,
    Task,
)
from raypipe.cluster.loop import Loop
from raypipe.cluster.report import Limits
from raypipe.storage.records import Record, Shard


class Scripted:
    """A backend that plays given events; `None` in the script lets 50 seconds pass.

    A number is a shard that is committed without anybody hearing of it; a list are events that come
    together.
    """

    def __init__(self, ledger, script):
        self.ledger, self.script = ledger, list(script)
        self.clock, self.started = 0.0, 0
        self.submitted, self.killed, self.released = [], [], []

    def start(self, task):
        self.started += 1
        return self.started

    def submit(self, worker, shard, skip, mode):
        self.submitted.append((worker, shard.index, tuple(skip), mode))

    def wait(self, seconds):
        if not self.script:
            raise AssertionError("the script has ended and the loop goes on")
        event = self.script.pop(0)
        while isinstance(event, int):
            self.ledger.imagine(SHARDS[event])
            event = self.script.pop(0)
        self.clock += 50.0 if event is None else 1.0
        events = event if isinstance(event, list) else [] if event is None else [event]
        for event in events:
            if isinstance(event, Done) and event.committed is not None:
                self.ledger.imagine(event.shard)
        return events

    def kill(self, worker):
        self.killed.append(worker)

    def end_idle(self):
        pass

    def release(self, worker):
        self.released.append(worker)

    def now(self):
        return self.clock


SHARDS = [Shard(i, 10 * i, 10 * i + 10) for i in range(3)]


PLAIN, CAREFUL, PROBE = Mode.PLAIN, Mode.CAREFUL, Mode.PROBE


def done(worker, index, seconds=1.0, num_bytes=0, **took):
    record = Record(SHARDS[index], "", num_bytes, {})
    return Done(worker, SHARDS[index], Committed(record, **took), seconds)


def play(*script, shards=3, skips_rows=False, held=(), **limits):
    ledger = SimulatedLedger(SHARDS[:shards])
    for index in held:
        ledger.commits[index] = 1
    backend = Scripted(ledger, script)
    told = SimpleNamespace(
        ledger=ledger, backend=backend, reports=[], at_work=[], facts=[], error=None
    )

    def told_by(report):
        told.reports.append(report.num_done)
        told.at_work.append(report.num_computing)

    calls = {name: limits.pop(name) for name in ("should_stop",) if name in limits}
    try:
        told.report = Loop(
            Task(BareStage(skips_rows=skips_rows), ledger),
            backend,
            Limits(**limits),
            on_progress=told_by,
            on_ready=lambda facts, process: told.facts.append((facts, process)),
            **calls,
        ).run()
    except Exception as error:
        told.error = error
    return told
