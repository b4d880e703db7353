"""What the Ray backend makes of Ray's answers, given by hand; Ray itself is in test_ray_pool."""

import os
import sys
from types import SimpleNamespace

import pytest
import ray
from ray.exceptions import ActorDiedError, RayTaskError

from raypipe import numerics
from raypipe.cluster import ray_pool
from raypipe.cluster.backend import Beating, Done, Failed, Lost, Mode, Preempted, Ready, Task
from raypipe.cluster.ray_pool import Actor, RayBackend
from raypipe.errors import IncompleteError
from raypipe.stages.stage import Needs
from raypipe.storage.records import Record, Shard

SHARD = Shard(0, 0, 8)
RECORD = Record(SHARD, "", 0, {})


class Ref:
    """An answer that stands once `outcome` is set."""

    outcome = None


class Method:
    def __init__(self, refs, name):
        self.refs, self.name = refs, name

    def remote(self, *arguments):
        ref = Ref()
        ref.name, ref.arguments = self.name, arguments
        self.refs.append(ref)
        return ref


class OnPaper:
    """The calls of Ray that the backend makes, and the actors it asked for."""

    def __init__(self):
        self.refs, self.asked, self.killed, self.waited = [], [], [], []
        self.have, self.hosts, self.shut = {"CPU": 6.0, "GPU": 3.0}, [], 0

    def options(self, **options):
        def remote(*arguments):
            self.asked.append((options, arguments))
            methods = {name: Method(self.refs, name) for name in ("open", "run", "beats")}
            return SimpleNamespace(number=len(self.asked), **methods)

        return SimpleNamespace(remote=remote)

    def wait(self, refs, *, num_returns, timeout):
        self.waited.append((num_returns, timeout))
        ready = [ref for ref in refs if ref.outcome is not None][:num_returns]
        return ready, [ref for ref in refs if ref not in ready]

    def get(self, ref):
        if isinstance(ref.outcome, Exception):
            raise ref.outcome
        return ref.outcome

    def kill(self, actor, *, no_restart):
        self.killed.append((actor.number, no_restart))

    def nodes(self):
        return self.hosts

    def cluster_resources(self):
        return self.have

    def shutdown(self):
        self.shut += 1


class Local:
    """A cluster of this process alone."""

    def __init__(self, **environment):
        self.gone, self.closed, self.environment = False, 0, environment

    def ended(self):
        return self.gone

    def check(self):
        if self.gone:
            raise IncompleteError("Ray's raylet has ended")

    def close(self):
        self.closed += 1


@pytest.fixture
def paper(monkeypatch):
    found = OnPaper()
    monkeypatch.setattr(ray_pool, "ray", found)
    monkeypatch.setattr(ray_pool, "Actor", found)
    return found


TASK = Task(SimpleNamespace(needs=Needs(num_cpus=2.0, num_gpus=0.5)), None)


def ready_worker(paper, **options):
    backend = RayBackend(**options)
    assert backend.start(TASK) == 1
    paper.refs[-1].outcome = ({"x": 1}, "process", "node-a")
    assert backend.wait(0.25) == [Ready(1, {"x": 1}, "process")]
    return backend


def test_an_actor_gets_what_its_stage_needs_and_its_threads(paper):
    ready_worker(paper, threads=3)
    ((options, arguments),) = paper.asked
    environment = {"OMP_NUM_THREADS": "3", **numerics.for_workers()}
    assert options == {
        "num_cpus": 2.0, "num_gpus": 0.5, "runtime_env": {"env_vars": environment},
    }  # fmt: skip
    assert arguments == (TASK, 3)
    assert paper.waited == [(1, 0.25), (1, 0)]
    RayBackend().start(TASK)
    assert paper.asked[1][1] == (TASK, 1)


def test_what_an_actor_inherits_is_not_asked_for_again(paper):
    """Ray starts a new process for every actor whose environment it is asked to set."""
    inherited = {"OMP_NUM_THREADS": "3", **numerics.for_workers()}
    ready_worker(paper, threads=3, local=Local(**inherited))
    assert paper.asked[0][0] == {"num_cpus": 2.0, "num_gpus": 0.5}
    RayBackend(threads=2, local=Local(**inherited)).start(TASK)
    assert paper.asked[1][0]["runtime_env"] == {"env_vars": {"OMP_NUM_THREADS": "2"}}


def test_a_shard_that_is_done_and_one_that_raised(paper):
    backend = ready_worker(paper)
    backend.submit(1, SHARD, (3,), Mode.CAREFUL)
    assert paper.refs[-1].arguments == (SHARD, (3,), Mode.CAREFUL)
    assert backend.wait(0.0) == []
    paper.refs[-1].outcome = (RECORD, 2.5)
    assert backend.wait(0.0) == [Done(1, SHARD, RECORD, 2.5)]
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
    run.outcome = (RECORD, 1.0)
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
    asked.outcome = (1, (4, 5))
    assert backend.wait(0.0) == [Beating(1, (4, 5))]
    for count, events in ((1, []), (2, [Beating(1, (6,))])):
        clock.seconds += 2.0
        backend.wait(0.0)
        paper.refs[-1].outcome = (count, (6,))
        assert backend.wait(0.0) == events
    clock.seconds += 2.0
    backend.wait(0.0)
    paper.refs[-1].outcome = ActorDiedError()
    assert backend.wait(0.0) == [], "its work tells that it died"
    clock.seconds += 2.0
    backend.wait(0.0)
    beats = paper.refs[-1]
    backend.kill(1)
    beats.outcome = (9, (7,))
    assert backend.wait(0.0) == []
    assert clock.slept == [] and backend.now() == clock.seconds


def test_without_anything_under_way_the_time_is_slept(paper, monkeypatch):
    slept = []
    times = SimpleNamespace(monotonic=lambda: 0.0, sleep=slept.append)
    monkeypatch.setattr(ray_pool, "time", times)
    assert RayBackend().wait(0.75) == [] and slept == [0.75]


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


def test_closing_ends_actors_and_cluster(paper):
    local = Local()
    ready_worker(paper, local=local).close()
    assert (paper.killed, paper.shut, local.closed) == ([(1, True)], 1, 1)
    ready_worker(paper).close()
    assert (len(paper.killed), paper.shut) == (2, 2)
    RayBackend().check()


# The actor's own methods, called here


def test_an_actor_counts_its_beats_and_keeps_the_newest_rows(monkeypatch):
    kind = Actor.__ray_metadata__.modified_class
    actor = kind(TASK, 2)
    assert actor.beats() == (0, ())

    def perform(task, shard, skip, beat, mode):
        beat([1, 2])
        beat([3])
        return (task, shard, skip, mode)

    monkeypatch.setattr(ray_pool, "perform", perform)
    record, seconds = actor.run(SHARD, (7,), Mode.PROBE)
    assert record == (TASK, SHARD, (7,), Mode.PROBE) and 0 <= seconds < 60
    assert actor.beats() == (2, (3,))


def test_an_actor_opens_its_stage_where_it_stands(monkeypatch, tmp_path):
    kind = Actor.__ray_metadata__.modified_class
    node = SimpleNamespace(get_node_id=lambda: "node-a")
    on_paper = SimpleNamespace(get_gpu_ids=lambda: [], get_runtime_context=lambda: node)
    monkeypatch.setattr(ray_pool, "ray", on_paper)
    monkeypatch.setattr(ray_pool, "introduce", lambda task, site: {"site": site})
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")
    storage = SimpleNamespace(scratch=lambda: tmp_path)
    task = Task(TASK.stage, SimpleNamespace(storage=storage))
    facts, process, at = kind(task, 2).open()
    assert (facts["site"].scratch, facts["site"].device, facts["site"].threads) == (
        tmp_path, "cpu", 2)  # fmt: skip
    assert (facts["gpu_ids"], facts["cuda_visible_devices"], at) == ([], "5", "node-a")
    assert process.pid == os.getpid()
    on_paper.get_gpu_ids = lambda: [3]
    no_gpu = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False))
    monkeypatch.setitem(sys.modules, "torch", no_gpu)
    assert kind(task, 2).open()[0]["gpu_ids"] == ["3"]


@pytest.mark.parametrize("works", [True, False])
def test_a_gpu_that_torch_cannot_use_is_none(monkeypatch, works):
    torch = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: works))
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert ray_pool._device([]) == "cpu"
    assert ray_pool._device([0]) == ("cuda" if works else "cpu")
    assert ray.is_initialized() is False
