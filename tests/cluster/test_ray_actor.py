"""A worker as a Ray actor, without Ray: its class is called in this process."""

import os
import sys
from itertools import count
from types import SimpleNamespace

import pytest
import ray
from ray.exceptions import ActorDiedError, OutOfMemoryError, RayActorError
from ray_on_paper import SHARD, TASK

from raypipe.cluster import ray_processes as ray_actor
from raypipe.cluster.backend import Lost, Mode, OutOfMemory, Preempted, Task
from raypipe.cluster.ray_processes import Actor, death
from raypipe.errors import InputError


def test_an_actor_counts_its_beats_and_keeps_the_newest_rows(monkeypatch):
    kind = Actor.__ray_metadata__.modified_class
    actor = kind(2)
    actor._number, actor._task = 7, TASK
    assert actor.beats() == (7, 0, ())

    def perform(task, opened, shard, skip, beat, mode):
        beat([1, 2])
        beat([3])
        return (task, opened, shard, skip, mode)

    monkeypatch.setattr(ray_actor, "perform", perform)
    actor._opened = "opened"
    record, seconds = actor.run(7, SHARD, (7,), Mode.PROBE)
    assert record == (TASK, "opened", SHARD, (7,), Mode.PROBE) and 0 <= seconds < 60
    assert actor.beats() == (7, 2, (3,))


def test_an_actor_opens_its_stage_where_it_stands(monkeypatch, tmp_path):
    kind = Actor.__ray_metadata__.modified_class
    node = SimpleNamespace(get_node_id=lambda: "node-a")
    on_paper = SimpleNamespace(get_gpu_ids=lambda: [], get_runtime_context=lambda: node)
    monkeypatch.setattr(ray_actor, "ray", on_paper)
    monkeypatch.setattr(ray_actor, "introduce", lambda task, site: (task.stage, {"site": site}))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")
    storage = SimpleNamespace(scratch=lambda: tmp_path)
    task = Task(TASK.stage, SimpleNamespace(storage=storage))
    actor = kind(2)
    facts, process, at = actor.open(1, task)
    assert actor._opened is TASK.stage
    assert (facts["site"].scratch, facts["site"].device, facts["site"].threads) == (
        tmp_path, "cpu", 2)  # fmt: skip
    assert (facts["gpu_ids"], facts["cuda_visible_devices"], at) == ([], "5", "node-a")
    assert process.pid == os.getpid()
    on_paper.get_gpu_ids = lambda: [3]
    no_gpu = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False))
    monkeypatch.setitem(sys.modules, "torch", no_gpu)
    assert kind(2).open(1, task)[0]["gpu_ids"] == ["3"]


@pytest.fixture
def process(monkeypatch, tmp_path):
    """An actor, and the task that `open` is given; each opening has a scratch folder of its own."""
    node = SimpleNamespace(get_node_id=lambda: "node-a")
    on_paper = SimpleNamespace(get_gpu_ids=lambda: [], get_runtime_context=lambda: node)
    monkeypatch.setattr(ray_actor, "ray", on_paper)
    found = SimpleNamespace(actor=Actor.__ray_metadata__.modified_class(1), closed=[], freed=[])
    monkeypatch.setattr(ray_actor, "give_memory_back", lambda: found.freed.append(1))

    def introduce(task, site):
        found.site = site
        (site.scratch / "unfinished").touch()
        return SimpleNamespace(close=lambda: found.closed.append(site.scratch.exists())), {}

    monkeypatch.setattr(ray_actor, "introduce", introduce)
    numbers = count()

    def scratch():
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        return folder

    found.task = Task(TASK.stage, SimpleNamespace(storage=SimpleNamespace(scratch=scratch)))
    return found


def test_a_second_worker_begins_without_the_beats_of_the_first(process):
    actor = process.actor
    actor.open(1, process.task)
    actor._beat([1])
    actor.rest(1)
    assert (actor._task, actor._opened, actor._site) == (None, None, None)
    actor.open(2, process.task)
    assert actor.beats() == (2, 0, ()) and actor._opened is not None


def test_a_worker_that_rests_closes_its_stage_then_removes_its_files_and_frees_its_memory(process):
    process.actor.open(1, process.task)
    scratch = process.site.scratch
    process.actor.rest(1)
    assert (process.closed, scratch.exists(), process.freed) == ([True], False, [1])
    process.actor.rest(1)
    assert (process.closed, process.freed) == ([True], [1]), "once"


def test_what_is_meant_for_another_worker_changes_and_computes_nothing(process, monkeypatch):
    monkeypatch.setattr(ray_actor, "perform", lambda *args: pytest.fail("computed"))
    actor = process.actor
    with pytest.raises(RuntimeError, match="was for worker 1, this is worker 0"):
        actor.run(1, SHARD, (), Mode.PLAIN)
    actor.open(1, process.task)
    actor.open(2, process.task)
    assert process.closed == [True], "the first worker's stage, before the second's is opened"
    opened = actor._opened
    actor.rest(1)
    assert actor._opened is opened and process.site.scratch.exists()
    with pytest.raises(RuntimeError, match=r"rows \[0, 8\) was for worker 1, this is worker 2"):
        actor.run(1, SHARD, (), Mode.PLAIN)
    actor.rest(2)
    with pytest.raises(RuntimeError, match="was for worker 2, this is worker 2"):
        actor.run(2, SHARD, (), Mode.PLAIN)


def test_a_worker_that_was_told_to_leave_opens_nothing_and_the_next_one_does(process):
    actor = process.actor
    actor.leave(2)
    actor.leave(1)
    assert actor.open(2, process.task) is None and actor._task is None
    assert not hasattr(process, "site")
    assert actor.open(3, process.task)[2] == "node-a"


def beating(process, monkeypatch, *batches, end=None):
    """What `run` of worker 1 says of a shard with these batches; one is a call in between."""
    seen = []

    def perform(task, opened, shard, skip, beat, mode):
        for batch in batches:
            if callable(batch):
                batch()
            else:
                beat([batch])
                seen.append(batch)
        if end is not None:
            raise end
        return "committed"

    monkeypatch.setattr(ray_actor, "perform", perform)
    process.actor.open(1, process.task)
    return process.actor.run(1, SHARD, (), Mode.PLAIN)[0], seen


def test_a_worker_that_is_told_to_leave_stops_at_its_next_batch(process, monkeypatch):
    actor = process.actor
    found = beating(process, monkeypatch, 1, lambda: actor.leave(0), 2, lambda: actor.leave(1), 3)
    assert found == (None, [1, 2])
    assert actor.open(2, process.task) is not None, "and its process is the next worker"


def test_what_a_worker_raises_after_it_was_told_to_leave_is_told_to_nobody(process, monkeypatch):
    swept = FileNotFoundError("its folder was swept")
    leave = lambda: process.actor.leave(1)  # noqa: E731
    assert beating(process, monkeypatch, 1, leave, end=swept) == (None, [1])


def test_an_error_of_a_worker_that_stays_is_raised(process, monkeypatch):
    with pytest.raises(FileNotFoundError):
        beating(process, monkeypatch, 1, end=FileNotFoundError("x"))


def test_a_stage_that_survives_errors_does_not_survive_leaving():
    assert not issubclass(ray_actor.Left, Exception)


def test_what_a_stage_that_could_not_be_opened_left_goes_with_the_next(process, monkeypatch):
    whole = ray_actor.introduce

    def refuse(task, site):
        whole(task, site)
        raise InputError("another folder")

    monkeypatch.setattr(ray_actor, "introduce", refuse)
    with pytest.raises(InputError):
        process.actor.open(1, process.task)
    left = process.site.scratch
    assert left.exists() and process.actor._opened is None
    monkeypatch.setattr(ray_actor, "introduce", whole)
    assert process.actor.open(2, process.task) is not None
    assert not left.exists() and process.site.scratch.exists()


@pytest.mark.parametrize("works", [True, False])
def test_a_gpu_that_torch_cannot_use_is_none(monkeypatch, works):
    torch = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: works))
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert ray_actor._device([]) == "cpu"
    assert ray_actor._device([0]) == ("cuda" if works else "cpu")
    assert ray.is_initialized() is False


@pytest.mark.parametrize(
    ("message", "dead", "kind"),
    [
        ("The actor died.", False, Lost),
        ("The actor died.", True, Preempted),
        ("The actor died because its node has died.", False, Preempted),
    ],
)
def test_a_worker_whose_node_is_gone_was_preempted_and_any_other_is_lost(message, dead, kind):
    found = death(3, RayActorError(error_msg=message), node_is_dead=dead)
    assert found == kind(3, message)


def test_ray_may_say_itself_that_a_node_was_taken(monkeypatch):
    error = ActorDiedError()
    monkeypatch.setattr(type(error), "preempted", True, raising=False)
    assert isinstance(death(1, error, node_is_dead=False), Preempted)


def test_of_a_want_of_memory_the_first_line_is_told_even_where_the_node_is_gone_too():
    error = OutOfMemoryError("1 worker(s) were killed\nTop 10 memory users")
    assert death(2, error, node_is_dead=True) == OutOfMemory(2, "1 worker(s) were killed")
