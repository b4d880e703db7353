"""Processes that serve one stage after another, on a fake of Ray: see test_ray_pool_events."""

import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from ray.exceptions import ActorDiedError, OutOfMemoryError
from ray_on_paper import SHARD, TASK, Local, OnPaper, ready_worker

from raypipe.cluster import ray_pool
from raypipe.cluster.backend import Lost, Mode, Ready, Task
from raypipe.cluster.idle import IdleActors
from raypipe.stages.stage import Needs

NEXT = Task(SimpleNamespace(needs=TASK.stage.needs), None)


@pytest.fixture
def paper(monkeypatch):
    found = OnPaper()
    monkeypatch.setattr(ray_pool, "ray", found)
    monkeypatch.setattr(ray_pool, "Actor", found)
    return found


def test_only_an_actor_with_the_same_needs_is_taken_and_the_others_end():
    ended = []
    idle = IdleActors(ended.append)
    small, large = Needs(num_cpus=1.0), Needs(num_cpus=2.0)
    assert idle.take(small) is None
    for actor, needs in (("a", small), ("b", large), ("c", small), ("d", small)):
        idle.add(actor, needs)
    assert (idle.take(small), ended) == ("a", ["b"])
    idle.end()
    assert sorted(ended) == ["b", "c", "d"] and idle.take(small) is None


def test_a_process_serves_the_next_task_with_a_number_of_its_own(paper):
    backend = ready_worker(paper, local=Local())
    backend.release(1)
    assert paper.refs[-1].name == "rest" and paper.killed == []
    assert backend.start(NEXT) == 2 and len(paper.asked) == 1
    assert (paper.refs[-1].name, paper.refs[-1].arguments) == ("open", (NEXT,))
    paper.refs[-1].outcome = ({}, "process", "node-a")
    assert backend.wait(0.0) == [Ready(2, {}, "process")]
    backend.submit(2, SHARD, (), Mode.PLAIN)
    paper.refs[-1].outcome = ActorDiedError()
    (lost,) = backend.wait(0.0)
    assert isinstance(lost, Lost) and lost.worker == 2


@pytest.mark.parametrize("death", [ActorDiedError(), OutOfMemoryError("full")])
def test_a_process_that_died_between_two_tasks_is_replaced_without_an_event(paper, death):
    backend = ready_worker(paper, local=Local())
    backend.release(1)
    backend.start(NEXT)
    paper.refs[-1].outcome = death
    assert backend.wait(0.0) == [] and len(paper.asked) == 2
    assert (paper.refs[-1].name, paper.refs[-1].arguments) == ("open", (NEXT,))
    paper.refs[-1].outcome = ActorDiedError()
    assert [type(event) for event in backend.wait(0.0)] == [Lost], "the second is a death like any"


def test_a_stage_that_wants_more_room_finds_it(paper):
    backend = ready_worker(paper, local=Local())
    backend.release(1)
    other = Task(SimpleNamespace(needs=replace(TASK.stage.needs, num_cpus=4.0)), None)
    backend.start(other)
    assert paper.killed == [(1, True)] and len(paper.asked) == 2
    backend.release(2)
    backend.end_idle()
    assert paper.killed == [(1, True), (2, True)]


def test_a_process_with_a_jvm_serves_no_other_task(paper):
    backend = ready_worker(paper)
    jvm = replace(TASK.stage.needs, own_process=True)
    backend.start(Task(SimpleNamespace(needs=jvm), None))
    backend.release(2)
    assert paper.killed == [(2, True)]


def test_one_that_waits_too_long_is_ended_and_one_that_came_later_waits_on():
    ended, both = {}, threading.Event()

    def end(actor):
        ended[actor] = time.monotonic()
        if len(ended) == 2:
            both.set()

    idle = IdleActors(end, seconds=0.2)
    idle.add("a", Needs())
    time.sleep(0.15)
    came = time.monotonic()
    idle.add("b", Needs())
    assert both.wait(60), "the second as well, without anybody asking"
    assert list(ended) == ["a", "b"] and idle.take(Needs()) is None
    assert ended["b"] - came >= 0.2, "its own time, not the first one's"


def test_after_the_end_nobody_is_ended_any_more():
    """The cluster may be left then; a thread that came first has done its work."""
    entered, leave, ended = threading.Event(), threading.Event(), []

    def end(actor):
        entered.set()
        leave.wait(60)
        ended.append(actor)

    idle = IdleActors(end, seconds=0.01)
    idle.add("a", Needs())
    assert entered.wait(60)
    threading.Timer(0.2, leave.set).start()
    idle.end()
    assert ended == ["a"]


def test_one_that_was_taken_is_not_ended_later():
    ended, last = [], threading.Event()
    idle = IdleActors(lambda actor: (ended.append(actor), last.set()), seconds=1.0)
    idle.add("a", Needs())
    assert idle.take(Needs()) == "a"
    idle.add("b", Needs())
    assert last.wait(60) and ended == ["b"]


def test_closing_ends_the_processes_that_wait(paper):
    backend = ready_worker(paper, local=Local())
    backend.release(1)
    backend.close()
    assert paper.killed == [(1, True)]
