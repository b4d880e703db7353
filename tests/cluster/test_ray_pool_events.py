"""What the Ray backend makes of Ray's answers, given by hand; Ray itself is in test_ray_pool.

Ray is a fake here (`ray_on_paper`): the real one, which the tests marked `ray` run, cannot be made
to give these answers at these moments.
"""

from types import SimpleNamespace

import pytest
from ray.exceptions import ActorDiedError, RayActorError, RayTaskError
from ray_on_paper import SHARD, TASK, Local, ready_worker

from raypipe.cluster import ray_pool
from raypipe.cluster.backend import Beating, Committed, Done, Failed, Lost, Mode, Preempted, Ready
from raypipe.cluster.ray_pool import RayBackend
from raypipe.errors import IncompleteError
from raypipe.storage.records import Record


def test_a_shard_that_is_done_and_one_that_raised(paper):
    backend = ready_worker(paper)
    backend.submit(1, SHARD, (3,), Mode.CAREFUL)
    assert paper.refs[-1].arguments == (1, SHARD, (3,), Mode.CAREFUL)
    assert backend.wait(0.0) == []
    committed = Committed(Record(SHARD, "", 0, {}), num_copied=3)
    paper.refs[-1].outcome = (committed, 2.5)
    assert backend.wait(0.0) == [Done(1, SHARD, committed, 2.5)]
    backend.submit(1, SHARD, (), Mode.PROBE)
    paper.refs[-1].outcome = (None, 1.5)
    assert backend.wait(0.0) == [Done(1, SHARD, None, 1.5)]
    cause = ValueError("x")
    for wrong in (cause, None):
        backend.submit(1, SHARD, (), Mode.PLAIN)
        paper.refs[-1].outcome = RayTaskError("run", "trace", wrong)
        (failed,) = backend.wait(0.0)
        assert isinstance(failed, Failed) and (failed.worker, failed.shard) == (1, SHARD)
        assert failed.error is cause if wrong else isinstance(failed.error, RuntimeError)


def test_events_of_several_workers_come_together(paper):
    backend = RayBackend()
    assert [backend.start(TASK) for _ in range(3)] == [1, 2, 3]
    for number, ref in enumerate(paper.refs[:2], 1):
        ref.outcome = ({}, None, f"node-{number}")
    assert [event.worker for event in backend.wait(0.0)] == [1, 2]
    assert paper.waited[-1] == (3, 0)
    opening = paper.refs[2]
    opening.outcome = RayTaskError("open", "trace", ValueError("no weights"))
    (failed,) = backend.wait(0.0)
    assert (failed.worker, failed.shard) == (3, None)


@pytest.mark.parametrize(
    ("nodes", "preempted", "kind"),
    [
        ([("node-a", True)], False, Lost),
        ([("node-a", True)], True, Preempted),
        ([("node-b", False), ("node-a", True)], False, Lost),
        ([("node-b", True), ("node-a", False)], False, Preempted),
        ([], False, Lost),
    ],
)
def test_an_actor_that_died_is_lost_unless_its_node_was_taken(
    paper, monkeypatch, nodes, preempted, kind
):
    backend = ready_worker(paper)
    paper.hosts = [{"NodeID": name, "Alive": alive} for name, alive in nodes]
    backend.submit(1, SHARD, (), Mode.PLAIN)
    error = ActorDiedError()
    monkeypatch.setattr(type(error), "preempted", preempted, raising=False)
    paper.refs[-1].outcome = error
    (event,) = backend.wait(0.0)
    assert type(event) is kind and event.worker == 1 and event.reason
    backend.kill(1)
    assert paper.killed == [], "there is nothing left to kill"


class OfAnotherVersion(ActorDiedError):
    """Says nothing of preemption."""

    @property
    def preempted(self):
        raise AttributeError("preempted")


def test_an_actor_whose_death_says_nothing_of_preemption_is_lost(paper):
    backend = ready_worker(paper)
    backend.submit(1, SHARD, (), Mode.PLAIN)
    paper.refs[-1].outcome = OfAnotherVersion()
    assert type(backend.wait(0.0)[0]) is Lost


def test_what_a_killed_worker_answers_late_is_no_event(paper):
    backend = ready_worker(paper)
    backend.start(TASK)
    backend.submit(1, SHARD, (), Mode.PLAIN)
    run, opening = paper.refs[-1], paper.refs[-2]
    backend.kill(1)
    assert paper.killed == [(1, True)]
    run.outcome = (Committed(Record(SHARD, "", 0, {})), 1.0)
    opening.outcome = ({}, None, "node-a")
    assert backend.wait(0.0) == [Ready(2, {}, None)]
    backend.kill(1)
    assert paper.killed == [(1, True)]


def test_ready_workers_are_asked_for_beats_every_two_seconds_and_a_hung_one_beats_once(
    paper, monkeypatch
):
    clock = SimpleNamespace(seconds=100.0, slept=[])
    times = SimpleNamespace(monotonic=lambda: clock.seconds, sleep=clock.slept.append)
    monkeypatch.setattr(ray_pool, "time", times)
    backend = ready_worker(paper)
    backend.start(TASK)
    backend.submit(1, SHARD, (), Mode.PLAIN)
    clock.seconds = 101.75
    assert backend.wait(0.0) == [] and paper.refs[-1].name == "run"
    clock.seconds = 102.0
    assert backend.wait(0.0) == []
    asked = paper.refs[-1]
    assert (asked.name, [r.name for r in paper.refs].count("beats")) == ("beats", 1)
    clock.seconds = 110.0
    assert backend.wait(0.0) == [] and paper.refs[-1] is asked, "it has not answered yet"
    asked.outcome = (1, 1, (4, 5))
    assert backend.wait(0.0) == [Beating(1, (4, 5))]
    for count, events in ((1, []), (2, [Beating(1, (6,))])):
        clock.seconds += 2.0
        backend.wait(0.0)
        paper.refs[-1].outcome = (1, count, (6,))
        assert backend.wait(0.0) == events
    clock.seconds += 2.0
    backend.wait(0.0)
    paper.refs[-1].outcome = ActorDiedError()
    assert backend.wait(0.0) == [], "its work tells that it died"
    clock.seconds += 2.0
    backend.wait(0.0)
    beats = paper.refs[-1]
    backend.kill(1)
    beats.outcome = (1, 9, (7,))
    assert backend.wait(0.0) == []
    assert clock.slept == [] and backend.now() == clock.seconds


def test_without_anything_under_way_the_time_is_slept(paper, monkeypatch):
    slept = []
    times = SimpleNamespace(monotonic=lambda: 0.0, sleep=slept.append)
    monkeypatch.setattr(ray_pool, "time", times)
    assert RayBackend().wait(0.75) == [] and slept == [0.75]


@pytest.mark.fault(5, "a daemon that has ended is told, and Ray is not called again")
def test_a_cluster_whose_daemon_is_gone_is_told_and_not_called(paper):
    local = Local()
    backend = ready_worker(paper, local=local)
    backend.check()
    local.gone = True
    for act in (backend.check, lambda: backend.wait(0.0)):
        with pytest.raises(IncompleteError, match="raylet has ended"):
            act()
    backend.kill(1)
    backend.close()
    assert (paper.killed, paper.shut, local.closed) == ([], 0, 1)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("The actor died.\n  class_name: Actor\n  The node died.", "The actor died."),
        (
            "The actor died because of an error raised in its creation task, ray::Actor()\n"
            "  File x, line 1\n\n    ModuleNotFoundError: No module named 'raypipe'\n",
            "The actor died because of an error raised in its creation task, ray::Actor() "
            "ModuleNotFoundError: No module named 'raypipe'",
        ),
        ("in its creation task", "in its creation task"),
    ],
)
def test_a_worker_that_could_not_begin_tells_what_was_missing(paper, told, expected):
    backend = ready_worker(paper)
    backend.submit(1, SHARD, (), Mode.PLAIN)
    paper.refs[-1].outcome = RayActorError(error_msg=told)
    assert [event.reason for event in backend.wait(0.0)] == [expected]
