"""Ray actors: pinned to their GPUs, replaced when they die, refused when they are strangers."""

import json
import os
import signal
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow.parquet as pq
import pytest
import ray

from raypipe.cluster.backend import Lost, Mode, Task
from raypipe.cluster.loop import Loop
from raypipe.cluster.ray_pool import RayBackend
from raypipe.cluster.ray_start import start_local
from raypipe.cluster.report import Limits
from raypipe.errors import IncompleteError, InputError, LimitError
from raypipe.stages.stage import Needs, Opened, Payload, Stage, ranges
from raypipe.storage.ledger import Ledger, events
from raypipe.storage.posix import PosixStorage
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec

pytestmark = [pytest.mark.ray, pytest.mark.slow]
ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import tests


@pytest.fixture(scope="module")
def cluster():
    """Two logical GPUs on a machine without any."""
    local = start_local(num_cpus=3, num_gpus=2)
    yield local
    local.close()


@pytest.fixture(scope="module")
def backend(cluster):
    """One for most tests: a process takes seconds of a core to start, and serves the next test."""
    found = RayBackend(local=cluster)
    yield found
    found.end_idle()


@dataclass
class Rows(Stage):
    """A row is its number times seven; `fault` befalls rows from 4 on, once or always.

    No shard is computed before `company` actors opened the stage.
    """

    root: str
    fault: str = ""
    needs: Needs = Needs()
    num_rows: int = 12
    company: int = 1

    @property
    def spec(self):
        return StageSpec("rows", 1, {"fault": self.fault, "num_rows": self.num_rows})

    def shards(self, sizing):
        return ranges(self.num_rows, 2)

    def open(self, site):
        Path(self.root, f"opened-{os.getpid()}").touch()
        facts = {"device": site.device, "mkl": os.environ.get("MKL_CBWR")}
        return Opened(partial(self._run, site.scratch), facts)

    def _run(self, scratch, shard, skip, beat):
        beat(range(shard.start, shard.stop))
        while len(list(Path(self.root).glob("opened-*"))) < self.company:
            time.sleep(0.05)
        if shard.start == 4:
            self.befall(shard)
        time.sleep(0.1)
        path = scratch / f"{shard.index}"
        path.write_text("".join(f"{row * 7}\n" for row in range(shard.start, shard.stop)))
        return Payload(path, {"rows": shard.num_rows})

    def befall(self, shard):
        first = not os.path.exists(f"{self.root}/{self.fault}")
        open(f"{self.root}/{self.fault or 'none'}", "w").close()
        if self.fault == "raises":
            raise RuntimeError(f"row {shard.start} cannot be computed")
        if self.fault == "bad-input":
            raise InputError(f"row {shard.start}: not UTF-8")
        if self.fault == "killed" and first:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault == "hangs" and first:
            time.sleep(600)


def work(backend, tmp_path, stage, *, actors=2, nonce=("", ""), **limits):
    ledger = Ledger(PosixStorage(tmp_path / "stores"), "rows", stage.spec, stage.shards(None))
    facts = []
    try:
        report = Loop(
            Task(stage, ledger, nonce),
            backend,
            Limits(num_actors=actors, poll_seconds=0.2, **limits),
            on_ready=lambda told, process: facts.append((told, process)),
        ).run()
    finally:
        for worker in list(backend._workers):
            backend.release(worker)
    return ledger.publish(), report, facts


def payloads(tmp_path, manifest):
    storage = PosixStorage(tmp_path / "stores")
    return "".join(storage.local(r.sha256).read_text() for r in manifest.records)


EXPECTED = "".join(f"{row * 7}\n" for row in range(12))


def test_actors_are_pinned_to_one_gpu_each(backend, tmp_path):
    stage = Rows(str(tmp_path), needs=Needs(num_gpus=1), company=2)
    manifest, _, facts = work(backend, tmp_path, stage)
    assert payloads(tmp_path, manifest) == EXPECTED
    assert sorted(told["gpu_ids"] for told, _ in facts) == [["0"], ["1"]]
    assert all(told["cuda_visible_devices"] == told["gpu_ids"][0] for told, _ in facts)
    assert backend.capacity(stage.needs) == 2
    assert RayBackend().capacity(stage.needs) > 512, "a cluster that was joined may grow"


def test_actors_with_half_a_gpu_share_both_evenly(backend, tmp_path):
    stage = Rows(str(tmp_path), needs=Needs(num_gpus=0.5), company=4)
    manifest, _, facts = work(backend, tmp_path, stage, actors=4)
    assert payloads(tmp_path, manifest) == EXPECTED
    assert sorted(told["gpu_ids"] for told, _ in facts) == [["0"], ["0"], ["1"], ["1"]]


def test_an_actor_without_gpus_sees_none(backend, tmp_path):
    _, _, facts = work(backend, tmp_path, Rows(str(tmp_path)))
    assert all(told["gpu_ids"] == [] for told, _ in facts)
    assert all(told["cuda_visible_devices"] == "" for told, _ in facts)


def test_an_actor_gets_the_mode_of_matrix_products_of_its_driver(backend, tmp_path, monkeypatch):
    monkeypatch.setenv("MKL_CBWR", "AVX2,STRICT")  # after Ray was started
    _, _, facts = work(backend, tmp_path, Rows(str(tmp_path)))
    assert all(told["mkl"] == "AVX2,STRICT" for told, _ in facts)


def test_ready_workers_tell_their_processes(backend, tmp_path):
    _, _, facts = work(backend, tmp_path, Rows(str(tmp_path), company=2))
    pids = {process.pid for _, process in facts}
    assert len(pids) == 2 and os.getpid() not in pids


@pytest.mark.fault(1, "1 worker on Ray killed while it computes, 12 of 12 rows there")
def test_the_shard_of_a_killed_actor_is_computed_by_another(backend, tmp_path):
    manifest, report, _ = work(backend, tmp_path, Rows(str(tmp_path), "killed"))
    assert payloads(tmp_path, manifest) == EXPECTED
    assert report.num_lost == 1


@pytest.mark.fault(
    19, "a worker on Ray that hangs is ended after its 5 seconds, 12 of 12 rows there"
)
@pytest.mark.fault(1, "a death that two answers tell at once is one event")
def test_a_death_that_two_answers_tell_at_once_is_one_event(backend, tmp_path):
    stage = Rows(str(tmp_path), "hangs")
    ledger = Ledger(PosixStorage(tmp_path / "stores"), "rows", stage.spec, stage.shards(None))
    worker = backend.start(Task(stage, ledger, ("", "")))
    while not (events := backend.wait(1.0)):
        pass
    (ready,) = events
    backend.submit(worker, ledger.shards[2], (), Mode.PLAIN)
    while not (tmp_path / "hangs").exists():
        time.sleep(0.05)
    os.kill(ready.process.pid, signal.SIGKILL)
    asked = len(backend._polls)
    backend._polled = 0.0
    backend._poll()
    assert len(backend._polls) >= asked
    refs = [*backend._work, *backend._polls]
    assert len(refs) == 2 and ray.wait(refs, num_returns=2)[1] == []
    assert [type(event) for event in backend.wait(1.0)] == [Lost]
    assert backend._work == {} and backend._polls == {}


def test_a_hung_actor_is_found_and_its_shard_goes_elsewhere(backend, tmp_path):
    stage = Rows(str(tmp_path), "hangs")
    never = {"least_late_seconds": 1e9}  # else another has tried it by then
    manifest, report, _ = work(backend, tmp_path, stage, silent_seconds=5.0, **never)
    assert payloads(tmp_path, manifest) == EXPECTED
    assert report.num_lost == 1


def test_a_shard_that_always_raises_ends_the_work_and_is_named(backend, tmp_path):
    with pytest.raises(IncompleteError, match=r"shard 00002 rows \[4, 6\).*failed 3 times.*row 4"):
        work(backend, tmp_path, Rows(str(tmp_path), "raises"))


def test_bad_input_passes_through_with_the_shard_at_once(backend, tmp_path):
    with pytest.raises(InputError, match="row 4: not UTF-8") as told:
        work(backend, tmp_path, Rows(str(tmp_path), "bad-input"))
    assert "shard 00002" in told.value.__notes__[0]


def test_a_worker_that_does_not_find_the_nonce_is_refused(backend, tmp_path):
    with pytest.raises(InputError, match="one folder that every node mounts"):
        work(backend, tmp_path, Rows(str(tmp_path)), nonce=("nonce/absent", "word"))


def test_bytes_are_the_same_on_one_two_and_three_actors(backend, tmp_path):
    manifests = [
        work(backend, tmp_path / str(n), Rows(str(tmp_path)), actors=n)[0] for n in (1, 2, 3)
    ]
    assert manifests[0] == manifests[1] == manifests[2]


def test_one_process_computes_stage_after_stage(backend, tmp_path):
    processes = []
    for name in ("first", "second"):
        root = tmp_path / name
        root.mkdir()
        stage = Rows(str(root), num_rows=4)
        ledger = Ledger(PosixStorage(root / "stores"), "rows", stage.spec, stage.shards(None))
        Loop(
            Task(stage, ledger),
            backend,
            Limits(num_actors=1, poll_seconds=0.2),
            on_ready=lambda told, process: processes.append(process),
        ).run()
        assert payloads(root, ledger.publish()) == EXPECTED[: len("0\n7\n14\n21\n")]
    assert len(processes) == 2 and processes[0] == processes[1]
    os.kill(processes[0].pid, signal.SIGKILL)
    third = tmp_path / "third"
    third.mkdir()
    stage = Rows(str(third), num_rows=4)
    ledger = Ledger(PosixStorage(third / "stores"), "rows", stage.spec, stage.shards(None))
    report = Loop(Task(stage, ledger), backend, Limits(num_actors=1, max_attempts=1)).run()
    assert (report.num_done, report.num_lost) == (2, 0)


@dataclass
class Endless(Stage):
    """Each row as a line; the first process to have shard 1 goes on with its batches for ever."""

    root: str
    endless: bool = True
    needs: Needs = Needs()
    spec: ClassVar[StageSpec] = StageSpec("rows", 1)

    def shards(self, sizing): ...

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


def late_task(tmp_path, name, **settings):
    (tmp_path / name).mkdir()
    stage = Endless(str(tmp_path / name), **settings)
    ledger = Ledger(PosixStorage(tmp_path / "stores"), name, stage.spec, ranges(12, 2))
    return Task(stage, ledger), ledger


@pytest.mark.fault(19, "on Ray a shard that never ends is committed once, by a second worker")
def test_a_shard_that_never_ends_is_committed_by_another_and_its_process_serves_the_next_stage(
    cluster, tmp_path
):
    backend, pids = RayBackend(local=cluster), {}
    limits = Limits(num_actors=2, poll_seconds=0.1, least_late_seconds=0.5, max_attempts=1)
    try:
        for name in ("first", "second"):
            task, ledger = late_task(tmp_path, name, endless=name == "first")
            pids[name] = ready = set()
            report = Loop(
                task, backend, limits, on_ready=lambda _, process, to=ready: to.add(process.pid)
            ).run()
            assert (report.num_done, report.num_lost) == (6, 0)
            records = ledger.publish().records
            lines = [ledger.storage.local(record.sha256).read_text() for record in records]
            assert "".join(lines) == "".join(f"{row}\n" for row in range(12))
    finally:
        backend.end_idle()
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


@dataclass
class Killing(Stage):
    """Writes its rows; dies over some of them."""

    poison: frozenset[int]
    skips_rows = True
    spec = StageSpec("killing", 1)

    def shards(self, sizing):
        return [Shard(0, 0, 40), Shard(1, 40, 80)]

    def open(self, site):
        return Opened(partial(self._run, site.scratch))

    def _run(self, scratch, shard, skip, beat):
        kept = [row for row in range(shard.start, shard.stop) if row not in set(skip)]
        for start in range(0, len(kept), 8):
            beat(kept[start : start + 8])
            if self.poison & set(kept[start : start + 8]):
                os.kill(os.getpid(), signal.SIGKILL)
        path = scratch / f"{shard.index}.npy"
        np.save(path, np.array(kept))
        return Payload(path, {"rows": shard.num_rows})


@pytest.mark.fault(
    16, "1 killing row of 80 on Ray: it alone is in quarantine, after at most 6 deaths"
)
def test_on_ray_a_row_that_kills_its_worker_is_found_and_the_rest_finishes(backend, tmp_path):
    storage = PosixStorage(tmp_path / "stores")
    stage = Killing(frozenset({53}))
    ledger = Ledger(storage, "killing", stage.spec, stage.shards(None))
    report = Loop(Task(stage, ledger), backend, Limits(num_actors=2)).run()
    assert report.num_lost <= 2 + 3 + 1
    with pytest.raises(LimitError, match=r"first rows \[53\]"):
        ledger.publish()
    manifest = ledger.publish(max_failed_rows=1)
    assert manifest.skipped_rows == (53,) and manifest.coverage == 1 - 1 / 80
    rows = [np.load(storage.local(record.sha256)) for record in manifest.records]
    assert np.concatenate(rows).tolist() == [row for row in range(80) if row != 53]
    events = (tmp_path / "stores" / ledger.folder / "attempts.jsonl").read_text().splitlines()
    kept = pq.read_table(tmp_path / "stores" / ledger.folder / "quarantine.parquet").to_pylist()
    assert [row["row"] for row in kept] == [53] and "died" in kept[0]["reason"]
    (told,) = [json.loads(e) for e in events if '"quarantined"' in e]
    assert told["row"] == 53 and "died" in told["reason"]
    assert not list((tmp_path / "stores").rglob("*.rows"))
