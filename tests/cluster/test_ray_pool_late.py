"""A late shard on a real Ray: two workers try it, one record stands, both processes go on."""

import json
import os
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest
import ray

from raypipe.cluster.backend import Task
from raypipe.cluster.loop import run
from raypipe.cluster.ray_pool import RayBackend
from raypipe.cluster.ray_start import start_local
from raypipe.cluster.report import Limits
from raypipe.stages.stage import Needs, Opened, Payload, ranges
from raypipe.storage.ledger import Ledger, events
from raypipe.storage.posix import PosixStorage
from raypipe.storage.spec import StageSpec

pytestmark = [pytest.mark.ray, pytest.mark.slow]
ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import tests


@dataclass
class Rows:
    """Each row as a line; the first process to have shard 1 goes on with its batches for ever."""

    root: str
    endless: bool = True
    needs: Needs = Needs()
    skips_rows: ClassVar[bool] = False
    spec: ClassVar[StageSpec] = StageSpec("rows", 1)

    def open(self, site):
        Path(self.root, f"opened-{os.getpid()}").touch()
        return Opened(partial(self._run, site.scratch))

    def _run(self, scratch, shard, skip, beat):
        beat(())
        while len(list(Path(self.root).glob("opened-*"))) < 2:
            time.sleep(0.02)
        time.sleep(0.05)
        path = scratch / f"{shard.index}"
        with path.open("w") as file:
            first = self.endless and shard.index == 1 and self._is_first()
            try:
                while first:
                    beat(())
                    file.write("unfinished")
                    time.sleep(0.02)
            finally:
                if first:
                    Path(self.root, "left").write_text(str(os.getpid()))
            file.writelines(f"{row}\n" for row in range(shard.start, shard.stop))
        return Payload(path, {"rows": shard.num_rows})

    def _is_first(self):
        try:
            Path(self.root, "first").open("x").close()
        except FileExistsError:
            return False
        return True


def work(tmp_path, name, **settings):
    (tmp_path / name).mkdir()
    stage = Rows(str(tmp_path / name), **settings)
    ledger = Ledger(PosixStorage(tmp_path / "stores"), name, stage.spec, ranges(12, 2))
    return Task(stage, ledger), ledger


@pytest.mark.fault(19, "on Ray a shard that never ends is committed once, by a second worker")
def test_a_shard_that_never_ends_is_committed_by_another_and_its_process_serves_the_next_stage(
    tmp_path,
):
    local = start_local(num_cpus=2)
    backend, pids = RayBackend(local=local), {}
    limits = Limits(num_actors=2, poll_seconds=0.1, least_late_seconds=0.5, max_attempts=1)
    try:
        for name in ("first", "second"):
            task, ledger = work(tmp_path, name, endless=name == "first")
            pids[name] = ready = set()
            report = run(
                task, backend, limits, on_ready=lambda _, process, to=ready: to.add(process.pid)
            )
            assert (report.num_done, report.num_lost) == (6, 0)
            records = ledger.publish().records
            lines = [ledger.storage.local(record.sha256).read_text() for record in records]
            assert "".join(lines) == "".join(f"{row}\n" for row in range(12))
    finally:
        backend.end_idle()
        ray.shutdown()
        local.close()
    noted = events(next((tmp_path / "stores" / "first").glob("*/attempts.jsonl")).read_bytes())
    assert [n["shard"] for n in noted if n["event"] == "second try"] == [1]
    (discarded,) = (note for note in noted if note["event"] == "discarded")
    assert discarded["shard"] == 1 and not discarded["second"], json.dumps(noted)
    assert sorted(n["shard"] for n in noted if n["event"] == "done") == list(range(6))
    assert pids["first"] == pids["second"], "the one that was late is one of them"
    assert int((tmp_path / "first" / "left").read_text()) in pids["second"]
    of_first = (tmp_path / "stores" / "tmp").glob("first-*/**/*")
    left = [path for path in of_first if path.is_file()]
    assert left == []
