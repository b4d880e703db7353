"""What became of an actor that died with its node or does not answer, on a fake of Ray."""

from types import SimpleNamespace

import pytest
from ray.exceptions import ActorDiedError, ActorUnavailableError
from ray_on_paper import SHARD, TASK, ready_worker

from raypipe.cluster import ray_pool
from raypipe.cluster.backend import Lost, Mode, Preempted
from raypipe.cluster.ray_pool import UNREACHABLE_SECONDS, RayBackend

NODE_DIED = (
    "The actor died unexpectedly before finishing this task.\n\tclass_name: Actor\n\tpid: 21847\n"
    "The actor died because its node has died. Node Id: 98c99169afb0\n"
    "\tthe actor's node was terminated unexpectedly: health check failed"
)
"""As Ray 2.60 writes it."""


@pytest.fixture
def paper(paper, monkeypatch):
    """With a clock that is set by hand."""
    paper.clock = 100.0
    monkeypatch.setattr(ray_pool, "POLL_SECONDS", 1e9)
    times = SimpleNamespace(monotonic=lambda: paper.clock, sleep=None)
    monkeypatch.setattr(ray_pool, "time", times)
    return paper


def died(text):
    error = ActorDiedError()
    error.error_msg = text
    return error


def silent():
    return ActorUnavailableError("Socket closed", None)


def opening(paper):
    backend = RayBackend()
    backend.start(TASK)
    return backend


def computing(paper):
    backend = ready_worker(paper)
    backend.submit(1, SHARD, (), Mode.PLAIN)
    return backend


@pytest.mark.fault(4, "a worker that dies with its node is told apart, also while it is opening")
@pytest.mark.parametrize("busy", [opening, computing])
def test_a_worker_that_died_with_its_node_was_preempted_before_it_was_ready_too(paper, busy):
    backend = busy(paper)
    paper.refs[-1].outcome = died(NODE_DIED)
    (event,) = backend.wait(0.0)
    assert type(event) is Preempted and "Node Id" in event.reason


def test_a_worker_that_died_alone_while_opening_is_lost(paper):
    backend = opening(paper)
    paper.refs[-1].outcome = died("The actor is dead because its worker process has died.")
    assert type(backend.wait(0.0)[0]) is Lost


@pytest.mark.parametrize("busy", [opening, computing])
@pytest.mark.parametrize(
    ("last", "kind"), [(NODE_DIED, Preempted), ("its worker process has died", Lost)]
)
def test_a_worker_that_does_not_answer_is_asked_until_ray_knows_why(paper, busy, last, kind):
    backend = busy(paper)
    for _ in range(5):
        paper.refs[-1].outcome = silent()
        assert backend.wait(0.0) == [] and paper.refs[-1].name == "beats"
        paper.clock += UNREACHABLE_SECONDS / 5
    paper.refs[-1].outcome = died(last)
    (event,) = backend.wait(0.0)
    assert type(event) is kind and event.worker == 1


@pytest.mark.parametrize("busy", [opening, computing])
def test_a_worker_of_which_ray_says_nothing_for_too_long_is_ended_and_lost(paper, busy):
    backend = busy(paper)
    paper.refs[-1].outcome = silent()
    assert backend.wait(0.0) == []
    paper.clock += UNREACHABLE_SECONDS + 1
    paper.refs[-1].outcome = silent()
    (event,) = backend.wait(0.0)
    assert type(event) is Lost and "unavailable" in event.reason
    assert paper.killed == [(1, True)]


def test_a_worker_that_answers_again_has_lost_its_work_and_is_ended(paper):
    backend = computing(paper)
    paper.refs[-1].outcome = silent()
    assert backend.wait(0.0) == []
    paper.refs[-1].outcome = (3, (1, 2))
    (event,) = backend.wait(0.0)
    assert event == Lost(1, "it answers again, but its work was lost on the way")
    assert paper.killed == [(1, True)]
