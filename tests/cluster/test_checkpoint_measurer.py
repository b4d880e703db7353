"""What is decided beside a training: whether there is room, what is measured next, why it ended.

Ray is a fake here: tasks fail and resources change at moments that the real one, which the tests
marked `ray` run, cannot be made to choose.
"""

import sys
from types import SimpleNamespace

import pytest

from raypipe.cluster import ray_train as checkpoint_measurer
from raypipe.cluster.ray_train import Beside, events, has_room, note_problem, note_worker
from raypipe.config.training import Validate
from raypipe.errors import IncompleteError, InputError
from raypipe.storage.posix import PosixStorage
from raypipe.training.checkpoints import History, Reader
from raypipe.training.fit import ELSEWHERE


class Failure(Exception):
    """Of Ray."""


class TaskFailure(Failure):
    def __init__(self, cause):
        super().__init__("task")
        self.cause = cause


class Ray:
    """Nodes by hand; a task's answer stands once `outcomes` has one for it."""

    def __init__(self, *nodes, free=None):
        self._nodes, self.free = nodes, free
        self.options, self.started, self.outcomes, self.looks = [], [], {}, 0

    def nodes(self):
        self.looks += 1
        return [{"Alive": alive, "Resources": have} for alive, have in self._nodes]

    def available_resources(self):
        return self.free

    def remote(self, **options):
        self.options.append(options)

        def wrap(work):
            def start(*arguments):
                self.started.append((work.__name__, arguments))
                return len(self.started)

            return SimpleNamespace(remote=start)

        return wrap

    def wait(self, refs, *, timeout):
        assert timeout == 0
        ready = [ref for ref in refs if ref in self.outcomes]
        return ready, [ref for ref in refs if ref not in ready]

    def get(self, ref):
        if self.outcomes[ref] is not None:
            raise self.outcomes[ref]


@pytest.fixture
def use(monkeypatch):
    def use(ray):
        ray.exceptions = SimpleNamespace(RayError=Failure, RayTaskError=TaskFailure)
        monkeypatch.setitem(sys.modules, "ray", ray)
        monkeypatch.setitem(sys.modules, "ray.exceptions", ray.exceptions)
        return ray

    monkeypatch.setattr(checkpoint_measurer, "ROOM_SECONDS", 0.05)
    return use


FOUR = (True, {"CPU": 4.0, "GPU": 2.0})
NEED = {"CPU": 2.0}


@pytest.mark.parametrize(
    ("nodes", "free", "workers", "room"),
    [
        ([FOUR], {"CPU": 4.0}, 1, True),
        ([FOUR], {"CPU": 4.0}, 2, False),
        ([FOUR, FOUR], {"CPU": 8.0}, 3, True),
        ([FOUR, (False, {"CPU": 4.0})], {"CPU": 8.0}, 2, False),
        ([FOUR], {"CPU": 3.0}, 1, False),  # somebody else has the rest
        ([(True, {"CPU": 3.0}), (True, {"CPU": 3.0})], {"CPU": 6.0}, 2, False),  # in pieces
        ([(True, {})], {"CPU": 6.0}, 1, False),
    ],
)
def test_there_is_room_where_nodes_hold_one_more_worker_and_it_is_free(
    use, nodes, free, workers, room
):
    use(Ray(*nodes, free=free))
    assert has_room(workers, NEED) is room


def test_the_scarcer_resource_decides_and_what_becomes_free_is_seen(use):
    ray = use(Ray(FOUR, free={"CPU": 4.0, "GPU": 2.0}))
    assert has_room(1, {"CPU": 1.0, "GPU": 1.0}) and not has_room(2, {"CPU": 1.0, "GPU": 1.0})
    checkpoint_measurer.ROOM_SECONDS = 10.0  # the fixture puts it back
    answers = iter([{"CPU": 2.0}, {"CPU": 4.0}])
    ray.available_resources = lambda: next(answers)
    assert has_room(1, NEED)


@pytest.fixture
def job(tmp_path):
    recipe = SimpleNamespace(
        validate_=Validate(every=10),
        steps=40,
        masking=None,
        resources=SimpleNamespace(max_failures=1),
    )
    return SimpleNamespace(
        storage=PosixStorage(tmp_path), folder="train-x/f", store="train-x", recipe=recipe
    )


def checkpoint(job, step):
    from raypipe.storage.records import seal

    body = {"step": step, "sha256": "0" * 64, "facts": {}}
    job.storage.create(f"{job.folder}/steps/{step:07d}.json", seal(body))


def test_checkpoints_are_measured_one_after_another_in_order(use, job):
    ray = use(Ray())
    beside = Beside(job, {"CPU": 3.0, "GPU": 1.0}, "cuda", 3)
    assert beside.look() and ray.started == [], "there is no checkpoint"
    for step in (10, 20):
        checkpoint(job, step)
    assert not beside.look()
    assert ray.started == [("_measure", (job, "cuda", 3, 10))]
    assert ray.options == [{"num_cpus": 3.0, "num_gpus": 1.0, "max_retries": 0, "max_calls": 1}]
    assert beside.busy() and not beside.look() and len(ray.started) == 1
    History(job.storage, job.folder, job.recipe.validate_, 40).add(10, [0.5])
    ray.outcomes[1] = None
    assert not beside.look() and ray.started[1][1][-1] == 20
    History(job.storage, job.folder, job.recipe.validate_, 40).add(20, [0.5])
    ray.outcomes[2] = None
    assert beside.look() and not beside.busy() and len(ray.started) == 2
    beside.commit()
    assert ray.started[2] == ("_commit", (job, "cuda", 3))
    cpu = Beside(job, {"CPU": 1.0}, "cpu", 1)
    cpu.commit()
    assert ray.options[-1]["num_gpus"] == 0


def test_a_checkpoint_that_is_gone_is_not_measured(use, job):
    ray = use(Ray())
    checkpoint(job, 20)
    assert not Beside(job, {"CPU": 1.0}, "cpu", 1).look()
    assert ray.started[0][1][-1] == 20
    ray = use(Ray())
    checkpoint(job, 25)
    History(job.storage, job.folder, job.recipe.validate_, 40).add(20, [0.5])
    assert Beside(job, {"CPU": 1.0}, "cpu", 1).look() and ray.started == []


def test_a_task_may_fail_as_often_as_workers_may_and_what_it_says_of_the_input_counts_at_once(
    use, job
):
    ray = use(Ray())
    checkpoint(job, 10)
    beside = Beside(job, {"CPU": 1.0}, "cpu", 1)
    beside.look()
    ray.outcomes[1] = Failure("killed")
    assert not beside.look() and len(ray.started) == 2, "it is started again"
    ray.outcomes[2] = TaskFailure(ValueError("x"))
    with pytest.raises(IncompleteError, match="train-x: the task that measures .* ended 2 times"):
        beside.look()
    again = Beside(job, {"CPU": 1.0}, "cpu", 1)
    again.look()
    ray.outcomes[3] = TaskFailure(InputError("no relevant passage"))
    with pytest.raises(InputError, match="no relevant passage"):
        again.busy()


# Why a training on Ray ended


def test_the_reason_that_a_worker_itself_has_is_told_before_that_another_has_one(job):
    from raypipe.cluster.ray_train import _committed, _problem

    assert _problem(job, 0) is None and not _committed(job)
    note_problem(job, "of an earlier run")
    note_worker(job)
    assert _problem(job, 0) == "of an earlier run" and _problem(job, 1) is None
    note_problem(job, ELSEWHERE)
    assert _problem(job, 2) == ELSEWHERE
    note_problem(job, "loss is not finite")
    note_problem(job, "loss is not finite either")
    assert _problem(job, 2) == "loss is not finite"
    job.storage.create(f"{job.folder}/shards/00000.json", b"{}")
    assert _committed(job) and _problem(job, 0) is None


def test_what_is_measured_and_committed_beside_is_told_as_the_trainers_tell_it(job, monkeypatch):
    """The model is a number: the checkpoint's step."""
    checkpoint(job, 20)
    done = []
    monkeypatch.setattr(
        checkpoint_measurer,
        "make_deterministic",
        lambda *given: done.append(("deterministic", given)),
    )
    monkeypatch.setattr(checkpoint_measurer, "trainee_of", lambda job, device: {"device": device})
    monkeypatch.setattr(checkpoint_measurer.Checkpoints, "load", lambda self, found: found.step)
    monkeypatch.setattr(
        checkpoint_measurer, "load_weights_", lambda trainee, tensors: trainee.update(step=tensors)
    )
    values = SimpleNamespace(values=lambda trainee, comm: [trainee["step"] / 100, float(comm.rank)])
    monkeypatch.setattr(checkpoint_measurer, "DevMeasures", lambda job: values)
    monkeypatch.setattr(
        checkpoint_measurer, "commit", lambda *given, **at: done.append((given, at))
    )
    job.recipe.dev = ["a", "b"]
    checkpoint_measurer._measure(job, "cpu", 3, 20)
    assert done == [("deterministic", ("cpu", 3))]
    history = History(job.storage, job.folder, job.recipe.validate_, 40)
    assert history._read(20) == {"step": 20, "mean": 0.1, "values": [0.2, 0.0]}
    told = {"step": 20, "measure": "nDCG@10", "mean": 0.1, "of": {"a": 0.2, "b": 0.0}}
    assert Reader(job).new() == [told]
    assert [event["event"] for event in events(job)] == ["worker"]
    checkpoint_measurer._commit(job, "cuda", 3)
    assert done[1:] == [((job,), {"device": "cuda"})]
    assert [event["event"] for event in events(job)] == ["worker", "worker"]
