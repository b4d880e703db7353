"""Actors as Ray is asked for them, on a fake of Ray: see test_ray_pool_events."""

import os
import sys
from types import SimpleNamespace

import pytest
import ray
from ray_on_paper import SHARD, TASK, Local, OnPaper, ready_worker

from raypipe import numerics
from raypipe.cluster import ray_pool
from raypipe.cluster.backend import Mode, Task
from raypipe.cluster.ray_pool import Actor, RayBackend
from raypipe.stages.stage import Needs


@pytest.fixture
def paper(monkeypatch):
    found = OnPaper()
    monkeypatch.setattr(ray_pool, "ray", found)
    monkeypatch.setattr(ray_pool, "Actor", found)
    return found


def test_an_actor_gets_what_its_stage_needs_and_its_threads(paper):
    ready_worker(paper, threads=3)
    ((options, arguments),) = paper.asked
    environment = {"OMP_NUM_THREADS": "3", **numerics.for_workers()}
    assert options == {
        "num_cpus": 2.0, "num_gpus": 0.5, "runtime_env": {"env_vars": environment},
    }  # fmt: skip
    assert arguments == (3,) and paper.refs[0].arguments == (TASK,)
    assert paper.waited == [(1, 0.25), (1, 0)]
    RayBackend().start(TASK)
    assert paper.asked[1][1] == (1,)


def test_what_an_actor_inherits_is_not_asked_for_again(paper):
    """Ray starts a new process for every actor whose environment it is asked to set."""
    inherited = {"OMP_NUM_THREADS": "3", **numerics.for_workers()}
    ready_worker(paper, threads=3, local=Local(**inherited))
    assert paper.asked[0][0] == {"num_cpus": 2.0, "num_gpus": 0.5}
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
    assert (paper.killed, paper.shut, local.closed) == ([(1, True)], 1, 1)
    ready_worker(paper).close()
    assert (len(paper.killed), paper.shut) == (2, 2)
    RayBackend().check()


def test_an_actor_counts_its_beats_and_keeps_the_newest_rows(monkeypatch):
    kind = Actor.__ray_metadata__.modified_class
    actor = kind(2)
    actor._task = TASK
    assert actor.beats() == (0, ())

    def perform(task, opened, shard, skip, beat, mode):
        beat([1, 2])
        beat([3])
        return (task, opened, shard, skip, mode)

    monkeypatch.setattr(ray_pool, "perform", perform)
    actor._opened = "opened"
    record, seconds = actor.run(SHARD, (7,), Mode.PROBE)
    assert record == (TASK, "opened", SHARD, (7,), Mode.PROBE) and 0 <= seconds < 60
    assert actor.beats() == (2, (3,))


def test_an_actor_opens_its_stage_where_it_stands(monkeypatch, tmp_path):
    kind = Actor.__ray_metadata__.modified_class
    node = SimpleNamespace(get_node_id=lambda: "node-a")
    on_paper = SimpleNamespace(get_gpu_ids=lambda: [], get_runtime_context=lambda: node)
    monkeypatch.setattr(ray_pool, "ray", on_paper)
    monkeypatch.setattr(ray_pool, "introduce", lambda task, site: (task.stage, {"site": site}))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")
    storage = SimpleNamespace(scratch=lambda: tmp_path)
    task = Task(TASK.stage, SimpleNamespace(storage=storage))
    actor = kind(2)
    facts, process, at = actor.open(task)
    assert actor._opened is TASK.stage
    assert (facts["site"].scratch, facts["site"].device, facts["site"].threads) == (
        tmp_path, "cpu", 2)  # fmt: skip
    assert (facts["gpu_ids"], facts["cuda_visible_devices"], at) == ([], "5", "node-a")
    assert process.pid == os.getpid()
    on_paper.get_gpu_ids = lambda: [3]
    no_gpu = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False))
    monkeypatch.setitem(sys.modules, "torch", no_gpu)
    assert kind(2).open(task)[0]["gpu_ids"] == ["3"]


def test_a_second_task_begins_without_the_beats_of_the_first(monkeypatch, tmp_path):
    kind = Actor.__ray_metadata__.modified_class
    node = SimpleNamespace(get_node_id=lambda: "node-a")
    on_paper = SimpleNamespace(get_gpu_ids=lambda: [], get_runtime_context=lambda: node)
    monkeypatch.setattr(ray_pool, "ray", on_paper)
    monkeypatch.setattr(ray_pool, "introduce", lambda task, site: (task.stage, {}))
    task = Task(TASK.stage, SimpleNamespace(storage=SimpleNamespace(scratch=lambda: tmp_path)))
    actor = kind(1)
    actor.open(task)
    actor._beat([1])
    actor.rest()
    assert (actor._task, actor._opened) == (None, None)
    actor.open(task)
    assert actor.beats() == (0, ()) and actor._opened is task.stage


@pytest.mark.parametrize("works", [True, False])
def test_a_gpu_that_torch_cannot_use_is_none(monkeypatch, works):
    torch = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: works))
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert ray_pool._device([]) == "cpu"
    assert ray_pool._device([0]) == ("cuda" if works else "cpu")
    assert ray.is_initialized() is False
