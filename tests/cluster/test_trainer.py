"""What a training on Ray is started with and how it ends; Ray itself is in test_trainer_on_ray."""

import os
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from raypipe.cluster import ray_train as trainer
from raypipe.cluster.ray_train import events, note_problem, note_worker, train_on_ray
from raypipe.errors import IncompleteError, InputError, RefusedError
from raypipe.storage.holder import this_process
from raypipe.storage.posix import PosixStorage
from raypipe.storage.spec import StageSpec
from raypipe.training.checkpoints import Reader
from raypipe.training.fit import ELSEWHERE


class DatasetsCallback:
    """One that Ray Train adds."""


class PlacementGroupCleanerCallback:
    """Another."""


ADDED = [DatasetsCallback(), PlacementGroupCleanerCallback()]


class Trainers:
    """Ray Train by hand: `work` is what its workers do."""

    def __init__(self, work):
        self.work, self.given = work, None

    def __call__(self, loop, **given):
        self.given = {"loop": loop, **given}
        self.made = SimpleNamespace(fit=lambda: self.work())
        self.made._create_default_callbacks = lambda: [*ADDED, 7]
        return self.made


@pytest.fixture
def start(tmp_path, monkeypatch):
    """A function that trains; `work` is called in the place of Ray's workers."""
    monkeypatch.setattr(trainer, "POLL_SECONDS", 0.01)
    spec = StageSpec("train", 1)
    resources = SimpleNamespace(workers=2, max_failures=3)
    recipe = SimpleNamespace(resources=resources)
    job = SimpleNamespace(
        recipe=recipe, storage=PosixStorage(tmp_path / "stores"), store="train-x",
        folder=f"train-x/{spec.fingerprint()}", spec=spec,
    )  # fmt: skip
    made = SimpleNamespace(job=job, workers=[], checks=0)

    def train(work=lambda: None, *, device="cpu", should_stop=lambda: None, **more):
        trainers = Trainers(work)
        names = ("FailureConfig", "RunConfig", "ScalingConfig")
        kinds = {name: partial(lambda kind, /, **given: (kind, given), name) for name in names}
        monkeypatch.setitem(sys.modules, "ray", SimpleNamespace())
        monkeypatch.setitem(sys.modules, "ray.train", SimpleNamespace(**kinds))
        torch = SimpleNamespace(TorchTrainer=trainers)
        monkeypatch.setitem(sys.modules, "ray.train.torch", torch)
        made.trainers = trainers

        def check():
            made.checks += 1

        train_on_ray(
            job, device=device, threads=3, folder=tmp_path / "out", should_stop=should_stop,
            on_workers=made.workers.append, check=check, **more,
        )  # fmt: skip

    made.train = train
    return made


def test_no_process_is_started_for_what_no_training_here_uses(start, monkeypatch):
    watcher = "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER"
    monkeypatch.setenv(watcher, "1")
    start.train()
    assert start.trainers.made._create_default_callbacks() == [ADDED[1], 7]
    assert os.environ[watcher] == "1"
    start.train(alone=True)
    assert start.trainers.made._create_default_callbacks() == [7]
    assert os.environ[watcher] == "0"


def test_workers_get_their_cores_and_the_training(start, tmp_path):
    left = tmp_path / "out" / "ray" / "left"
    left.mkdir(parents=True)
    start.train()
    assert not left.exists()
    given = start.trainers.given
    assert given["train_loop_config"] == {"job": start.job, "device": "cpu", "threads": 3}
    assert given["scaling_config"] == ("ScalingConfig", {
        "num_workers": 2, "use_gpu": False, "resources_per_worker": {"CPU": 3.0}})  # fmt: skip
    assert given["run_config"] == ("RunConfig", {
        "name": start.job.spec.fingerprint(), "storage_path": str(tmp_path / "out" / "ray"),
        "failure_config": ("FailureConfig", {"max_failures": 3})})  # fmt: skip
    assert Path(given["run_config"][1]["storage_path"]).is_absolute() and start.checks > 0
    start.train(device="cuda")
    scaling = start.trainers.given["scaling_config"][1]
    assert scaling["use_gpu"] and scaling["resources_per_worker"] == {"CPU": 3.0, "GPU": 1.0}


def test_new_workers_are_told_once_and_those_of_earlier_runs_are_not(start):
    note_worker(start.job)
    start.train(lambda: note_worker(start.job))
    assert start.workers == [[this_process()]]


def test_what_workers_say_of_the_training_ends_it(start):
    note_problem(start.job, "of an earlier run")
    start.train()
    with pytest.raises(InputError, match="^loss is not finite$"):
        start.train(lambda: note_problem(start.job, "loss is not finite"))


def test_the_reason_that_a_worker_itself_has_is_told_before_that_another_has_one(start):
    job = start.job
    assert trainer._problem(job, 0) is None and not trainer._committed(job)
    note_problem(job, "of an earlier run")
    note_worker(job)
    assert trainer._problem(job, 0) == "of an earlier run" and trainer._problem(job, 1) is None
    note_problem(job, ELSEWHERE)
    assert trainer._problem(job, 2) == ELSEWHERE
    note_problem(job, "loss is not finite")
    note_problem(job, "loss is not finite either")
    assert trainer._problem(job, 2) == "loss is not finite"
    job.storage.create(f"{job.folder}/shards/00000.json", b"{}")
    assert trainer._committed(job) and trainer._problem(job, 0) is None


def test_workers_that_died_too_often_are_told_with_their_number(start):
    def die():
        raise RuntimeError("out of memory")

    with pytest.raises(IncompleteError, match="train-x: workers ended 4 times .*out of memory"):
        start.train(die)


def test_a_stop_is_raised_while_workers_run(start):
    import threading

    held, stop = threading.Event(), RefusedError("stop")
    with pytest.raises(RefusedError) as caught:
        start.train(held.wait, should_stop=lambda: stop)
    held.set()
    assert caught.value is stop


@pytest.mark.parametrize(("world", "rank"), [(1, 0), (2, 0), (2, 1)])
def test_the_first_worker_commits(start, monkeypatch, world, rank):
    done, reported = [], []
    context = SimpleNamespace(get_world_size=lambda: world)
    train = SimpleNamespace(get_context=lambda: context, report=reported.append)
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(train=train))
    monkeypatch.setitem(sys.modules, "ray.train", train)
    monkeypatch.setattr(trainer, "Group", lambda: SimpleNamespace(rank=rank, kind="group"))
    monkeypatch.setattr(trainer, "Comm", lambda: SimpleNamespace(rank=0, kind="solo"))
    monkeypatch.setattr(
        trainer,
        "fit",
        lambda job, comm, **given: done.append((comm.kind, given.pop("tell"), given)),
    )
    monkeypatch.setattr(trainer, "commit", lambda job, device: done.append(device))
    config = {"job": start.job, "device": "cuda", "threads": 3}
    trainer._work(config)
    kind, tell, given = done[0]
    assert kind == ("solo" if world == 1 else "group")
    assert given == {"device": "cuda", "threads": 3}
    assert done[1:] == (["cuda"] if rank == 0 else []) and reported == [{}]
    tell({"step": 4, "note": "a"})
    assert Reader(start.job).new() == [{"step": 4, "note": "a"}]

    def bad(job, comm, **given):
        raise InputError("loss is not finite")

    monkeypatch.setattr(trainer, "fit", bad)
    trainer._work(config)
    assert [e.get("reason") for e in events(start.job)] == [None, None, "loss is not finite"]
    assert reported == [{}, {}]
