"""A worker that Ray ends because its node is short of memory."""

import os
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import psutil
import pytest
import ray
from ray.exceptions import OutOfMemoryError
from ray_on_paper import SHARD, TASK, ready_worker

from raypipe.cluster import ray_pool
from raypipe.cluster.backend import Mode, OutOfMemory, Task
from raypipe.cluster.loop import Loop
from raypipe.cluster.ray_pool import RayBackend
from raypipe.cluster.ray_start import start_local
from raypipe.cluster.report import Limits
from raypipe.stages.stage import Needs, Opened, Payload, Stage, ranges
from raypipe.storage.ledger import Ledger
from raypipe.storage.posix import PosixStorage
from raypipe.storage.spec import StageSpec

TOLD = "1 worker(s) were killed due to the node running low on memory. Memory on the node was"
"""As Ray 2.60 begins; its further lines list every process."""


@pytest.mark.fault(
    17, "Ray's own error is told apart from a crash, also while the worker is opening"
)
@pytest.mark.parametrize("opening", [False, True])
def test_a_worker_that_ray_ended_for_memory_is_told_apart(paper, opening):
    backend = ready_worker(paper)
    if opening:
        backend.start(TASK)
    else:
        backend.submit(1, SHARD, (), Mode.PLAIN)
    paper.refs[-1].outcome = OutOfMemoryError(f"{TOLD} full\nTop 10 memory users: ...")
    number = 2 if opening else 1
    assert backend.wait(0.0) == [OutOfMemory(number, f"{TOLD} full")]
    backend.kill(number)
    assert paper.killed == [], "there is nothing left to kill"


def test_its_heartbeat_is_no_event_of_its_own(paper, monkeypatch):
    monkeypatch.setattr(ray_pool, "POLL_SECONDS", 0.0)
    backend = ready_worker(paper)
    backend.submit(1, SHARD, (), Mode.PLAIN)
    assert backend.wait(0.0) == []
    beats = next(ref for ref in paper.refs if ref.name == "beats")
    beats.outcome = OutOfMemoryError(TOLD)
    assert backend.wait(0.0) == [], "its work tells"


@dataclass
class Hungry(Stage):
    """Rows as text; the first worker that meets row 4 takes as many bytes as it is told to."""

    root: str
    num_bytes: int
    needs: Needs = Needs()
    skips_rows: ClassVar[bool] = True
    spec: ClassVar[StageSpec] = StageSpec("hungry", 1)

    def shards(self, sizing):
        return ranges(12, 2)

    def open(self, site):
        return Opened(partial(self._run, site.scratch))

    def _run(self, scratch, shard, skip, beat):
        beat(range(shard.start, shard.stop))
        taken = Path(self.root, "taken")
        if shard.start == 4 and not taken.exists():
            taken.touch()
            eaten = bytearray(os.urandom(1 << 20) * (self.num_bytes >> 20))
            time.sleep(120)
            del eaten
        path = scratch / f"{shard.index}"
        path.write_text("".join(f"{row}\n" for row in range(shard.start, shard.stop)))
        return Payload(path, {"rows": shard.num_rows})


@pytest.mark.fault(
    17, "Ray's real monitor ends 1 worker that fills the memory: 12 of 12 rows, 0 losses"
)
@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.long
def test_rays_own_monitor_ends_one_worker_and_the_others_finish(tmp_path, monkeypatch):
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import tests
    memory = psutil.virtual_memory()
    share = (memory.total - memory.available + (2 << 30)) / memory.total
    monkeypatch.setenv("RAY_memory_usage_threshold", f"{share:.3f}")
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "100")
    stage = Hungry(str(tmp_path), 4 << 30)
    ledger = Ledger(PosixStorage(tmp_path / "stores"), "rows", stage.spec, stage.shards(None))
    backend = RayBackend(local=start_local(num_cpus=2, num_gpus=0))
    try:
        never = {"least_late_seconds": 1e9}  # else another may have tried the shard by then
        limits = Limits(num_actors=2, poll_seconds=0.2, **never)
        report = Loop(Task(stage, ledger), backend, limits).run()
    finally:
        backend.close()
    manifest = ledger.publish()
    storage = PosixStorage(tmp_path / "stores")
    rows = "".join(storage.local(record.sha256).read_text() for record in manifest.records)
    assert rows == "".join(f"{row}\n" for row in range(12)) and manifest.skipped_rows == ()
    assert (report.num_out_of_memory, report.num_lost, report.num_done) == (1, 0, 6)
