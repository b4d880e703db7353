"""The loop on a virtual clock, for `scheduling.py driver`: its CPU time, and what Python holds."""

import json
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "helpers"))
from bare_stage import BareStage
from simulated import SimulatedBackend, SimulatedLedger, World  # noqa: E402

from raypipe.cluster.backend import Task
from raypipe.cluster.loop import Loop
from raypipe.cluster.report import Limits
from raypipe.stages.stage import ranges
from raypipe.storage.files import append_line
from raypipe.storage.records import Record

FAULTS = {"slow_share": 0.05, "preempted": 0.02, "crashed": 0.01, "stalled": 0.01}


class Counted(SimulatedLedger):
    """Keeps a byte a shard, and writes its notes to a file as a ledger does."""

    def __init__(self, num_shards: int, log: Path) -> None:
        super().__init__(ranges(num_shards, 1))
        self.done, self.log = bytearray(num_shards), log
        self.skipped = Forgetful()

    def imagine(self, shard):
        self.done[shard.index] += 1
        return Record(shard, "", 0, {})

    def record(self, shard):
        if not self.done[shard.index]:
            raise FileNotFoundError
        return Record(shard, "", 0, {})

    def note(self, event):
        append_line(self.log, json.dumps(event, sort_keys=True).encode())


class Forgetful(dict):
    def __setitem__(self, key, value):
        """Nobody asks for it."""


def simulated(num_actors, num_shards, fates, *, traced=False):
    """Milliseconds of CPU a shard; bytes held at 10, 50 and 90% of the shards; the report."""
    held = []
    stage = BareStage(skips_rows=False)
    at = {round(num_shards * share) for share in (0.1, 0.5, 0.9)} if traced else set()

    def on_progress(report):
        if report.num_done in at:  # once: it is also called while nothing ends
            at.remove(report.num_done)
            held.append(tracemalloc.get_traced_memory()[0])

    with tempfile.TemporaryDirectory() as folder:
        ledger = Counted(num_shards, Path(folder) / "attempts.jsonl")
        if traced:
            tracemalloc.start()
        backend = SimulatedBackend(World(num_actors=num_actors, **fates), ledger, seed=1)
        limits, began = Limits(num_actors=num_actors, max_attempts=9), time.process_time()
        report = Loop(Task(stage, ledger), backend, limits, on_progress=on_progress).run()
        used = time.process_time() - began
        tracemalloc.stop()
    assert ledger.done == b"\1" * num_shards, "a shard was committed twice, or never"
    return 1000 * used / num_shards, held, report
