"""Actors that are let go in the middle of a shard, on a fake of Ray: see test_ray_pool_events."""

from types import SimpleNamespace

import pytest
from ray.exceptions import ActorDiedError
from ray_on_paper import SHARD, TASK, Local, ready_worker

from raypipe.cluster import ray_pool
from raypipe.cluster.backend import Mode, Ready, Task
from raypipe.cluster.ray_pool import RayBackend

NEXT = Task(SimpleNamespace(needs=TASK.stage.needs), None)


@pytest.fixture
def clock(monkeypatch):
    found = SimpleNamespace(seconds=100.0)
    times = SimpleNamespace(monotonic=lambda: found.seconds, sleep=lambda seconds: None)
    monkeypatch.setattr(ray_pool, "time", times)
    return found


def let_go(paper):
    """A backend whose worker 1 was let go while it computed, and the answer that it owes."""
    backend = ready_worker(paper, local=Local())
    backend.submit(1, SHARD, (), Mode.PLAIN)
    answer = paper.refs[-1]
    backend.release(1)
    assert [ref.name for ref in paper.refs[-2:]] == ["leave", "rest"] and paper.killed == []
    return backend, answer


def test_one_that_still_computes_is_taken_after_one_that_waits(paper, clock):
    backend, _ = let_go(paper)
    backend.start(NEXT)
    assert len(paper.asked) == 1, "rather than no process at all"
    backend.start(NEXT)
    paper.refs[-1].outcome = ({}, "process", "node-a")
    backend.wait(0.0)
    backend.release(3)
    backend.release(2)
    backend.start(NEXT)
    assert backend._workers[4].actor.number == 2


def test_of_two_that_are_let_go_the_one_that_computes_is_taken_last(paper, clock):
    backend = ready_worker(paper, local=Local())
    backend.start(TASK)
    paper.refs[-1].outcome = ({}, "process", "node-a")
    backend.wait(0.0)
    backend.submit(2, SHARD, (), Mode.PLAIN)
    backend.release(1)
    clock.seconds += 1.0
    backend.release(2)
    backend.start(NEXT)
    assert backend._workers[3].actor.number == 1


def test_what_it_answers_late_is_no_event_and_then_it_serves_like_any(paper, clock):
    backend, answer = let_go(paper)
    backend.start(NEXT)
    opening = paper.refs[-1]
    clock.seconds += 15.0
    assert backend.wait(0.0) == []
    answer.outcome = (None, 17.0)
    clock.seconds += 2.0
    assert backend.wait(0.0) == []
    opening.outcome = ({}, "process", "node-a")
    clock.seconds += 99.0
    assert backend.wait(0.0) == [Ready(2, {}, "process")] and paper.killed == []
    assert backend._leaving == [] and backend._workers[2].before is None


def test_one_that_hangs_is_ended_after_20_seconds_and_another_opens_in_its_place(paper, clock):
    backend, _ = let_go(paper)
    clock.seconds += 50.0  # that it hangs matters only once it is wanted
    backend.start(NEXT)
    opening = paper.refs[-1]
    clock.seconds += 20.0
    assert backend.wait(0.0) == [] and paper.killed == []
    clock.seconds += 2.1
    assert backend.wait(0.0) == [] and paper.killed == [(1, True)]
    clock.seconds += 2.1
    assert backend.wait(0.0) == [] and paper.killed == [(1, True)], "once"
    opening.outcome = ActorDiedError()
    assert backend.wait(0.0) == [] and len(paper.asked) == 2
    paper.refs[-1].outcome = ({}, "process", "node-b")
    assert backend.wait(0.0) == [Ready(2, {}, "process")], "and no worker was lost"


def test_an_answer_that_nobody_waits_for_is_forgotten_once_it_is_there(paper, clock):
    backend, answer = let_go(paper)
    assert len(backend._leaving) == 1
    answer.outcome = (None, 1.0)
    clock.seconds += 2.0
    backend.wait(0.0)
    assert backend._leaving == []


def test_on_a_joined_cluster_a_gpu_is_free_at_once_in_the_middle_of_a_shard_too(paper, clock):
    backend = ready_worker(paper)
    backend.submit(1, SHARD, (), Mode.PLAIN)
    backend.release(1)
    assert paper.killed == [(1, True)] and backend._leaving == []


@pytest.mark.parametrize(("workers", "seconds"), [(1, 2.0), (100, 2.0), (300, 6.0)])
def test_many_workers_are_asked_less_often(paper, clock, workers, seconds):
    backend = RayBackend(local=Local())
    for _ in range(workers):
        backend.start(TASK)
        paper.refs[-1].outcome = ({}, "process", "node-a")
    backend.wait(0.0)
    clock.seconds += seconds - 0.1
    backend.wait(0.0)
    assert [ref.name for ref in paper.refs].count("beats") == 0
    clock.seconds += 0.1
    backend.wait(0.0)
    assert [ref.name for ref in paper.refs].count("beats") == workers
