"""Processes on a real Ray that live as long as the invocation: what they hold, serve and refuse."""

import os
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import ClassVar

import psutil
import pytest
import ray
from given_stores import Stores
from random_bert import Shape, make_random_bert, pieces_of

from raypipe.cluster.backend import Mode, Ready, Task
from raypipe.cluster.loop import Loop
from raypipe.cluster.ray_daemons import AGENT
from raypipe.cluster.ray_pool import RayBackend
from raypipe.cluster.ray_start import start_local
from raypipe.cluster.report import Limits
from raypipe.errors import InputError
from raypipe.models.folder.model_folder import resolve_model
from raypipe.stages.encode import EncodeStage
from raypipe.stages.stage import Needs, Opened, Payload, Sizing, Stage, ranges
from raypipe.stages.tables import Sides
from raypipe.storage.ledger import Ledger
from raypipe.storage.posix import PosixStorage
from raypipe.storage.spec import StageSpec

pytestmark = [pytest.mark.ray, pytest.mark.slow]
ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import tests

NUM_STAGES = 25
SHAPE = Shape(layers=4, hidden=256, heads=4)
LAYERS_MIB = 4 * 12 * 256**2 * 4 / 2**20
"""Of a model's matrices; its embeddings stay in the file and are read where they are needed."""


@pytest.fixture(scope="module")
def cluster():
    local = start_local(num_cpus=4, num_gpus=2)
    yield local
    local.close()


@pytest.fixture
def backend(cluster):
    found = RayBackend(local=cluster)
    yield found
    for worker in list(found._workers):
        found.kill(worker)
    found.end_idle()


def test_only_daemons_that_workers_need_run(cluster):
    below = psutil.Process().children(recursive=True)
    commands = [process.cmdline() for process in below]
    assert any(str(AGENT) in command for command in commands)
    running = " ".join(word for command in commands for word in command)
    for needed in ("gcs_server", "raylet", "RuntimeEnvAgent"):
        assert needed in running
    for spared in ("monitor.py", "dashboard.py", "dashboard/agent.py", "DashboardAgent"):
        assert spared not in running


@dataclass
class Rows(Stage):
    """Each row as a line. The second process that opens it does so only once `gate` exists."""

    root: str
    needs: Needs = Needs()
    company: int = 1
    """Processes that have opened it before a shard is computed."""
    gate: str = ""
    spec: ClassVar[StageSpec] = StageSpec("rows", 1)

    def shards(self, sizing): ...

    def open(self, site):
        for number in range(99):
            try:
                Path(self.root, f"opened-{number}").open("x").write(str(os.getpid()))
                break
            except FileExistsError:
                continue
        while number and self.gate and not Path(self.gate).exists():
            time.sleep(0.02)
        return Opened(partial(self._run, site.scratch), {"scratch": str(site.scratch)})

    def _run(self, scratch, shard, skip, beat):
        beat(range(shard.start, shard.stop))
        while len(list(Path(self.root).glob("opened-*"))) < self.company:
            time.sleep(0.02)
        if shard.start == 2 and Path(self.root, "wait").exists():
            Path(self.root, "waits").touch()
            while Path(self.root, "wait").exists():
                time.sleep(0.02)
        path = scratch / f"{shard.index}"
        path.write_text("".join(f"{row}\n" for row in range(shard.start, shard.stop)))
        return Payload(path, {"rows": shard.num_rows})

    def pids(self):
        return {int(path.read_text()) for path in Path(self.root).glob("opened-*")}


def task_of(root, nonce=("", ""), **settings):
    root.mkdir()
    stage = Rows(str(root), **settings)
    return Task(
        stage, Ledger(PosixStorage(root / "stores"), "rows", stage.spec, ranges(8, 2)), nonce
    )


def done_by(backend, task, actors=1):
    """The processes that were ready for the task, and what they told."""
    ready = []
    Loop(
        task,
        backend,
        Limits(num_actors=actors, poll_seconds=0.05),
        on_ready=lambda facts, process: ready.append((process.pid, facts)),
    ).run()
    records = task.ledger.publish().records
    lines = [task.ledger.storage.local(record.sha256).read_text() for record in records]
    assert "".join(lines) == "".join(f"{row}\n" for row in range(8))
    return ready


def resting(backend):
    """The process that waits, once it has given up its last stage."""
    (waiting,) = backend._processes._idle._waiting
    ray.get(waiting.actor.rest.remote(0))  # behind what it was told before
    return psutil.Process(ray.get(waiting.actor.__ray_call__.remote(lambda self: os.getpid())))


def assert_flat(held):
    """In MiB after each stage; the first ones load libraries and fill pools."""
    early, late = median(held[5:10]), median(held[-5:])
    assert len(held) == NUM_STAGES and late <= 1.05 * early, [round(mib) for mib in held]


def test_after_each_of_25_stages_a_process_holds_no_more_than_before(backend, tmp_path):
    model = resolve_model(str(make_random_bert(tmp_path / "model", SHAPE)))
    stores = Stores(tmp_path)
    flat, offsets = pieces_of([40] * 60, SHAPE, seed=1)
    rows = [flat[a:b].tolist() for a, b in zip(offsets[:-1], offsets[1:], strict=True)]
    stage = EncodeStage(stores.tokens(rows), model, "passage", budget_tokens=512)
    held, opened, pids = [], [], set()
    for number in range(NUM_STAGES):
        shards = stage.shards(Sizing(shard_tokens=1000))
        ledger = Ledger(stores.storage, f"embeddings{number}", stage.spec, shards)

        def on_ready(facts, process):
            pids.add(process.pid)
            opened.append(psutil.Process(process.pid).memory_info().rss >> 20)

        Loop(Task(stage, ledger), backend, Limits(poll_seconds=0.05), on_ready=on_ready).run()
        ledger.publish()
        held.append(resting(backend).memory_info().rss / 2**20)
    assert len(pids) == 1
    freed = [a - b for a, b in zip(opened[5:], held[5:], strict=True)]
    assert median(freed) > LAYERS_MIB, (opened, held)
    assert_flat(held)


@pytest.mark.jvm
def test_after_each_of_25_searches_a_process_with_a_jvm_holds_no_more_than_before(
    backend, tmp_path, long_index
):
    from long_collection import NUM_PASSAGES, commit, passages

    from raypipe import schema
    from raypipe.engines.lucene.index import pack_folder
    from raypipe.stages.bm25 import Bm25Stage

    stores = Stores(tmp_path)
    packed = stores.storage.scratch() / "packed"
    pack_folder(long_index, packed)
    index = commit(stores.storage, "lucene", [(packed, NUM_PASSAGES)])
    collection = stores.tables(schema.PASSAGES, passages(0, NUM_PASSAGES))
    queries = stores.queries(*(f"w{n} w{n + 3}" for n in range(20)))
    stage = Bm25Stage("bm25", Sides(queries, collection), index, 0.9, 0.4, 20)
    held, maps, pids = [], [], set()
    for number in range(NUM_STAGES):
        ledger = Ledger(stores.storage, f"bm25-{number}", stage.spec, stage.shards(Sizing()))
        told = []
        Loop(
            Task(stage, ledger), backend, Limits(), on_ready=lambda f, p, to=told: to.append(p.pid)
        ).run()
        ledger.publish()
        pids.update(told)
        process = resting(backend)
        held.append(process.memory_info().rss / 2**20)
        maps.append([m.path for m in process.memory_maps() if "/index/" in m.path])
    assert len(pids) == 1 and maps == [[]] * NUM_STAGES
    assert_flat(held)


def test_a_process_keeps_its_gpu_while_others_serve_stages_without_one(backend, tmp_path):
    on_gpu, ready = Needs(num_gpus=1.0), []
    for number, needs in enumerate((on_gpu, Needs(), on_gpu, Needs(jvm=True), Needs())):
        ready += done_by(backend, task_of(tmp_path / str(number), needs=needs))
    pids = [pid for pid, _ in ready]
    assert pids[2] == pids[0] and pids[4] == pids[1] and len({*pids}) == 3
    seen = [facts["cuda_visible_devices"] for _, facts in ready]
    assert seen == [seen[0], "", seen[0], "", ""] and seen[0] in ("0", "1")


def test_a_worker_still_opening_when_its_stage_is_done_serves_the_next(backend, tmp_path):
    gate = tmp_path / "gate"
    first = task_of(tmp_path / "first", gate=str(gate), company=2)
    ready = done_by(backend, first, actors=2)
    assert len(ready) == 1 and len(first.stage.pids()) == 2, "one waits at the gate"
    second = task_of(tmp_path / "second")
    assert [pid for pid, _ in done_by(backend, second)] == [ready[0][0]], "the ready one"
    gate.touch()
    third = task_of(tmp_path / "third", company=2)
    both = done_by(backend, third, actors=2)
    assert {pid for pid, _ in both} == first.stage.pids()
    left = [p for p in (tmp_path / "first" / "stores" / "tmp").rglob("*") if p.is_file()]
    assert left == []


@pytest.mark.fault(
    14, "a process that the driver left computing commits 1 shard to its own stage, 0 to the next"
)
def test_a_process_that_still_computes_commits_to_the_stage_that_it_began_with(backend, tmp_path):
    """The driver has moved on without ending it, which it never should."""
    first, second = (task_of(tmp_path / name) for name in ("first", "second"))
    (tmp_path / "first" / "wait").touch()
    number = backend.start(first)
    while not any(isinstance(event, Ready) for event in backend.wait(1.0)):
        pass
    actor = backend._workers[number].actor
    backend.submit(number, first.ledger.shards[1], (), Mode.PLAIN)
    while not (tmp_path / "first" / "waits").exists():
        time.sleep(0.02)
    backend.release(number)
    late = actor.run.remote(number, first.ledger.shards[0], (), Mode.PLAIN)
    assert backend.start(second) == 2
    (tmp_path / "first" / "wait").unlink()
    while not any(isinstance(event, Ready) for event in backend.wait(1.0)):
        pass
    with pytest.raises(RuntimeError, match=r"rows \[0, 2\) was for worker 1"):
        ray.get(late)
    assert [shard.index for shard in first.ledger.pending()] == [0, 2, 3]
    assert len(second.ledger.pending()) == 4
    stale = actor.run.remote(number, second.ledger.shards[0], (), Mode.PLAIN)
    with pytest.raises(RuntimeError, match="was for worker 1, this is worker 2"):
        ray.get(stale)
    assert len(second.ledger.pending()) == 4


def test_a_worker_refused_for_one_stage_serves_another_and_answers_each_stages_nonce(
    backend, tmp_path
):
    refused = task_of(tmp_path / "refused", nonce=("nonce/word", "of this driver"))
    with pytest.raises(InputError, match="one folder that every node mounts"):
        done_by(backend, refused)
    process = resting(backend)
    storage = PosixStorage(tmp_path / "next" / "stores")
    following = task_of(tmp_path / "next", nonce=("nonce/word", "of this driver"))
    storage.create("nonce/word", b"of this driver")
    ((pid, facts),) = done_by(backend, following)
    assert pid == process.pid and {"python", "raypipe", "package_sha256"} <= facts.keys()
