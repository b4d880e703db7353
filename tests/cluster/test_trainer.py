"""What a training on Ray is started with and how it ends; Ray itself is in test_trainer_on_ray."""

import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from raypipe.cluster import ray_train as trainer
from raypipe.cluster.ray_train import events, note_problem, note_worker, train_on_ray
from raypipe.config.training import Validate
from raypipe.errors import IncompleteError, InputError, RefusedError
from raypipe.storage.holder import this_process
from raypipe.storage.posix import PosixStorage
from raypipe.storage.spec import StageSpec
from raypipe.training.checkpoints import Reader


class Trainers:
    """Ray Train by hand: `work` is what its workers do."""

    def __init__(self, work):
        self.work, self.given = work, None

    def __call__(self, loop, **given):
        self.given = {"loop": loop, **given}
        return SimpleNamespace(fit=lambda: self.work())


@pytest.fixture
def start(tmp_path, monkeypatch):
    """A function that trains; `work` is called in the place of Ray's workers."""
    monkeypatch.setattr(trainer, "POLL_SECONDS", 0.01)
    spec = StageSpec("train", 1)
    resources = SimpleNamespace(workers=2, beside=False, max_failures=3)
    recipe = SimpleNamespace(resources=resources, validate_=Validate(every=3))
    job = SimpleNamespace(
        recipe=recipe, storage=PosixStorage(tmp_path / "stores"), store="train-x",
        folder=f"train-x/{spec.fingerprint()}", spec=spec,
    )  # fmt: skip
    made = SimpleNamespace(job=job, workers=[], checks=0)

    def train(work=lambda: None, *, device="cpu", should_stop=lambda: None):
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
            on_workers=made.workers.append, check=check,
        )  # fmt: skip

    made.train = train
    return made


def test_workers_get_their_cores_and_the_training(start, tmp_path):
    left = tmp_path / "out" / "ray" / "left"
    left.mkdir(parents=True)
    start.train()
    assert not left.exists()
    given = start.trainers.given
    assert given["train_loop_config"] == {
        "job": start.job, "device": "cpu", "threads": 3, "beside": False}  # fmt: skip
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


class Next:
    """What is beside: nothing left after so many looks, committed after so many asks."""

    def __init__(self, job, looks=2, busy=2):
        self.job, self.looks, self.left = job, looks, busy
        self.commits = 0

    def look(self):
        self.looks -= 1
        return self.looks < 0

    def busy(self):
        self.left -= 1
        if self.commits and self.left < 0:
            self.job.storage.create(f"{self.job.folder}/shards/00000.json", b"{}")
        return self.commits > 0

    def commit(self):
        self.commits += 1


@pytest.mark.parametrize("room", [True, False])
def test_where_there_is_room_one_beside_measures_and_commits(start, monkeypatch, room):
    beside, asked = Next(start.job), []
    start.job.recipe.resources.beside = True
    monkeypatch.setattr(trainer, "has_room", lambda *given: asked.append(given) or room)
    monkeypatch.setattr(trainer, "Beside", lambda *given: asked.append(given) or beside)
    start.train()
    assert asked[0] == (2, {"CPU": 3.0})
    assert start.trainers.given["train_loop_config"]["beside"] is room
    if not room:
        assert len(asked) == 1 and Reader(start.job).new() == []
        return
    assert asked[1] == (start.job, {"CPU": 3.0}, "cpu", 3)
    assert (beside.looks, beside.commits) == (-1, 1)
    note = "checkpoints are measured beside the trainers"
    assert Reader(start.job).new() == [{"step": 0, "note": note}]
    again = Next(start.job)
    monkeypatch.setattr(trainer, "Beside", lambda *given: again)
    start.train()
    assert again.commits == 0, "it is committed"


def test_a_stop_while_it_is_committed_beside_is_raised(start, monkeypatch):
    beside, stop = Next(start.job, looks=0, busy=99), RefusedError("stop")
    start.job.recipe.resources.beside = True
    monkeypatch.setattr(trainer, "has_room", lambda *given: True)
    monkeypatch.setattr(trainer, "Beside", lambda *given: beside)
    with pytest.raises(RefusedError):
        start.train(should_stop=lambda: stop if beside.commits else None)
    start.job.recipe.validate_ = None
    start.train()
    assert start.trainers.given["train_loop_config"]["beside"] is False


@pytest.mark.parametrize(("world", "rank"), [(1, 0), (2, 0), (2, 1)])
@pytest.mark.parametrize("beside", [True, False])
def test_the_first_worker_commits_unless_somebody_beside_does(
    start, monkeypatch, world, rank, beside
):
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
    config = {"job": start.job, "device": "cuda", "threads": 3, "beside": beside}
    trainer._work(config)
    kind, tell, given = done[0]
    assert kind == ("solo" if world == 1 else "group")
    assert given == {"device": "cuda", "threads": 3, "beside": beside}
    assert done[1:] == (["cuda"] if rank == 0 and not beside else []) and reported == [{}]
    tell({"step": 4, "note": "a"})
    assert Reader(start.job).new() == [{"step": 4, "note": "a"}]

    def bad(job, comm, **given):
        raise InputError("loss is not finite")

    monkeypatch.setattr(trainer, "fit", bad)
    trainer._work(config)
    assert [e.get("reason") for e in events(start.job)] == [None, None, "loss is not finite"]
    assert reported == [{}, {}]
