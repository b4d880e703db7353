"""Processes that serve one stage after another, on a fake of Ray: see test_ray_pool_events."""

import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from ray.exceptions import ActorDiedError, OutOfMemoryError
from ray_on_paper import SHARD, TASK, Local, ready_worker

from raypipe import numerics
from raypipe.cluster import ray_pool
from raypipe.cluster.backend import Beating, Lost, Mode, Ready, Task
from raypipe.cluster.ray_pool import RayBackend
from raypipe.cluster.ray_processes import IdleActors, ProcessKind
from raypipe.stages.stage import Needs

NEXT = Task(SimpleNamespace(needs=TASK.stage.needs), None)


SMALL, LARGE = ProcessKind(1.0, 0.0, jvm=False), ProcessKind(2.0, 0.0, jvm=False)


def test_only_an_actor_of_the_same_kind_is_taken_and_the_others_wait_on():
    ended = []
    idle = IdleActors(ended.append, seconds=3600.0)
    assert idle.take(SMALL) is None
    for actor, kind in (("a", SMALL), ("b", LARGE), ("c", SMALL)):
        idle.add(actor, kind)
    assert (idle.take(SMALL), idle.take(SMALL), idle.take(SMALL)) == ("c", "a", None)
    assert (idle.take(LARGE), ended) == ("b", [])


@pytest.mark.parametrize(
    "other",
    [
        SMALL._replace(num_gpus=1.0),
        SMALL._replace(jvm=True),
        SMALL._replace(environment=(("OMP_NUM_THREADS", "2"),)),
    ],
)
def test_gpus_a_jvm_and_another_environment_are_kinds_of_their_own(other):
    idle = IdleActors(lambda actor: None, seconds=3600.0)
    idle.add("a", other)
    assert (idle.take(SMALL), idle.take(other)) == (None, "a")


def test_one_that_still_opens_is_taken_last():
    idle = IdleActors(lambda actor: None, seconds=3600.0)
    for actor, ready in (("opening", False), ("first", True), ("later", True), ("too", False)):
        idle.add(actor, SMALL, ready=ready)
    taken = [idle.take(SMALL) for _ in range(4)]
    assert taken == ["later", "first", "too", "opening"]


def test_those_that_waited_longest_make_room_and_no_more_of_them_than_needed():
    ended = []
    idle = IdleActors(ended.append, seconds=3600.0)
    for actor, kind in (("a", SMALL), ("b", LARGE), ("c", SMALL)):
        idle.add(actor, kind)
    seen = []

    def fits(kinds):
        seen.append(list(kinds))
        return sum(kind.num_cpus for kind in kinds) <= 1.0

    idle.make_room(fits)
    assert ended == ["a", "b"]
    assert seen == [[SMALL, LARGE, SMALL], [LARGE, SMALL], [SMALL]]
    idle.make_room(lambda kinds: False)
    assert ended == ["a", "b", "c"]
    idle.end()
    assert ended == ["a", "b", "c"]


def test_a_process_serves_the_next_task_with_a_number_of_its_own(paper):
    backend = ready_worker(paper, local=Local())
    backend.release(1)
    assert paper.refs[-1].name == "rest" and paper.killed == []
    assert backend.start(NEXT) == 2 and len(paper.asked) == 1
    assert (paper.refs[-1].name, paper.refs[-1].arguments) == ("open", (2, NEXT))
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
    assert (paper.refs[-1].name, paper.refs[-1].arguments) == ("open", (2, NEXT))
    paper.refs[-1].outcome = ActorDiedError()
    assert [type(event) for event in backend.wait(0.0)] == [Lost], "the second is a death like any"


def wanting(**needs):
    return Task(SimpleNamespace(needs=replace(TASK.stage.needs, **needs)), None)


@pytest.mark.parametrize(
    ("needs", "ended"),
    [
        ({"num_cpus": 10.0}, []),  # twice 6 cores, and 3 GPUs; what waits holds 2 and a half
        ({"num_cpus": 10.5}, [1]),
        ({"num_gpus": 2.5}, []),
        ({"num_gpus": 2.6}, [1]),
        ({"threads": 8}, []),
    ],
)
def test_waiting_processes_end_only_for_a_stage_that_has_no_room_beside_them(paper, needs, ended):
    backend = ready_worker(paper, local=Local())
    backend.release(1)
    backend.start(wanting(**needs))
    assert [number for number, _ in paper.killed] == ended
    assert len(paper.asked) == (1 if "threads" in needs else 2)


def test_the_workers_of_a_stage_count_for_the_room_too(paper):
    backend = ready_worker(paper, local=Local())
    backend.release(1)
    for _ in range(2):
        backend.start(wanting(num_cpus=5.0, num_gpus=0.0))
        assert paper.killed == [], "2, 5 and 5 of twice 6 cores"
    backend.start(wanting(num_cpus=5.0, num_gpus=0.0))
    assert paper.killed == [(1, True)]
    backend.release(2)
    backend.end_idle()
    assert paper.killed == [(1, True), (2, True)]


def test_of_two_that_were_let_go_the_ready_one_serves_first(paper):
    backend = RayBackend(local=Local())
    for _ in range(2):
        backend.start(TASK)
    paper.refs[0].outcome = ({}, "process", "node-a")
    backend.wait(0.0)
    backend.release(1)
    backend.release(2)
    backend.start(NEXT)
    assert backend._workers[3].actor.number == 1


def test_on_a_joined_cluster_a_gpu_is_free_at_once_and_a_process_without_one_waits(paper):
    backend = ready_worker(paper)
    backend.release(1)
    assert paper.killed == [(1, True)]
    without = wanting(num_gpus=0.0)
    backend.start(without)
    backend.release(2)
    assert len(paper.killed) == 1
    backend.start(without)
    assert len(paper.asked) == 2, "the same process"
    backend.release(3)
    backend.start(wanting(num_gpus=0.0, num_cpus=1.0))
    assert paper.killed[1:] == [(2, True)], "what others hold there is not known"


def test_processes_wait_a_minute_here_and_ten_seconds_where_others_work(paper):
    assert RayBackend(local=Local())._processes._idle._seconds == 60.0
    assert RayBackend()._processes._idle._seconds == 10.0


def test_a_process_with_a_jvm_serves_tasks_that_start_one_and_no_others(paper):
    backend = ready_worker(paper, local=Local())
    backend.start(wanting(jvm=True))
    backend.release(1)
    backend.release(2)
    assert paper.killed == [] and len(paper.asked) == 2
    backend.start(wanting(jvm=True))
    assert backend._workers[3].actor.number == 2
    backend.start(TASK)
    assert backend._workers[4].actor.number == 1 and len(paper.asked) == 2


def test_a_worker_that_leaves_while_it_opens_is_told_before_it_rests(paper):
    backend = RayBackend(local=Local())
    backend.start(TASK)
    opening = paper.refs[-1]
    backend.release(1)
    assert [(ref.name, ref.arguments) for ref in paper.refs[1:]] == [
        ("leave", (1,)),
        ("rest", (1,)),
    ]
    opening.outcome = ({}, "process", "node-a")
    backend.start(NEXT)
    assert len(paper.asked) == 1 and backend.wait(0.0) == [], "that it opened is no news"
    paper.refs[-1].outcome = ({}, "process", "node-a")
    assert backend.wait(0.0) == [Ready(2, {}, "process")]
    backend.release(2)
    backend.release(2)
    assert [ref.name for ref in paper.refs].count("rest") == 2


def test_beats_that_a_process_tells_of_another_worker_are_no_event(paper, monkeypatch):
    monkeypatch.setattr(ray_pool, "POLL_SECONDS", 0.0)
    backend = ready_worker(paper, local=Local())
    for told, events in ((2, []), (1, [Beating(1, (5,))])):
        backend.wait(0.0)
        paper.refs[-1].outcome = (told, 1, (5,))
        assert backend.wait(0.0) == events


def test_one_that_waits_too_long_is_ended_and_one_that_came_later_waits_on():
    ended, both = {}, threading.Event()

    def end(actor):
        ended[actor] = time.monotonic()
        if len(ended) == 2:
            both.set()

    idle = IdleActors(end, seconds=0.2)
    idle.add("a", SMALL)
    time.sleep(0.15)
    came = time.monotonic()
    idle.add("b", SMALL)
    assert both.wait(), "the second as well, without anybody asking"
    assert list(ended) == ["a", "b"] and idle.take(SMALL) is None
    assert ended["b"] - came >= 0.2, "its own time, not the first one's"


def test_after_the_end_nobody_is_ended_any_more():
    """The cluster may be left then; a thread that came first has done its work."""
    entered, leave, ended = threading.Event(), threading.Event(), []

    def end(actor):
        entered.set()
        leave.wait()
        ended.append(actor)

    idle = IdleActors(end, seconds=0.01)
    idle.add("a", SMALL)
    assert entered.wait()
    threading.Timer(0.2, leave.set).start()
    idle.end()
    assert ended == ["a"]


def test_one_that_was_taken_is_not_ended_later():
    ended, last = [], threading.Event()
    idle = IdleActors(lambda actor: (ended.append(actor), last.set()), seconds=1.0)
    idle.add("a", SMALL)
    assert idle.take(SMALL) == "a"
    idle.add("b", SMALL)
    assert last.wait() and ended == ["b"]


def test_closing_ends_the_processes_that_wait(paper):
    backend = ready_worker(paper, local=Local())
    backend.release(1)
    backend.close()
    assert paper.killed == [(1, True)]


def test_an_actor_gets_what_its_stage_needs_and_its_threads(paper):
    ready_worker(paper, threads=3)
    ((options, arguments),) = paper.asked
    environment = {"OMP_NUM_THREADS": "3", **numerics.for_workers()}
    assert options == {
        "num_cpus": 2.0, "num_gpus": 0.5, "runtime_env": {"env_vars": environment},
    }  # fmt: skip
    assert arguments == (3,) and paper.refs[0].arguments == (1, TASK)
    assert paper.waited == [(1, 0.25), (1, 0)]
    RayBackend().start(TASK)
    assert paper.asked[1][1] == (1,)


def test_what_an_actor_inherits_is_not_asked_for_again(paper):
    """Ray starts a new process for every actor whose environment it is asked to set."""
    inherited = {"OMP_NUM_THREADS": "3", **numerics.for_workers()}
    ready_worker(paper, threads=3, local=Local(**inherited))
    assert paper.asked[0][0] == {"num_cpus": 0.0, "num_gpus": 0.5}, "and it reserves no core"
    RayBackend(threads=2, local=Local(**inherited)).start(TASK)
    assert paper.asked[1][0]["runtime_env"] == {"env_vars": {"OMP_NUM_THREADS": "2"}}


@pytest.mark.parametrize(
    ("needs", "fits"),
    [
        ((2.0, 0.0), 3),
        ((4.0, 0.0), 1),
        ((7.0, 0.0), 1),
        ((2.0, 0.5), 3),
        ((0.5, 0.5), 6),
        ((0.0, 0.5), 6),
        ((0.5, 2.0), 1),
        ((0.0, 0.0), 1),
    ],
)
def test_as_many_workers_fit_as_the_scarcer_of_cores_and_gpus_allows(paper, needs, fits):
    wanted = Needs(num_cpus=needs[0], num_gpus=needs[1])
    assert RayBackend(local=Local()).capacity(wanted) == fits
    assert RayBackend().capacity(wanted) == (1 << 30 if needs[1] else fits)
    paper.have = {}
    assert RayBackend(local=Local()).capacity(wanted) == 1


def test_closing_ends_actors_and_cluster(paper):
    local = Local()
    ready_worker(paper, local=local).close()
    assert (paper.killed, paper.shut, local.closed) == ([(1, True)], 0, 1)
    ready_worker(paper).close()
    assert (len(paper.killed), paper.shut) == (2, 1), "who started Ray leaves it too"
    RayBackend().check()
