"""A worker as a Ray actor, without Ray: its class is called in this process."""

import os
import sys
from types import SimpleNamespace

import pytest
import ray
from ray_on_paper import SHARD, TASK

from raypipe.cluster import ray_actor
from raypipe.cluster.backend import Mode, Task
from raypipe.cluster.ray_actor import Actor


def test_an_actor_counts_its_beats_and_keeps_the_newest_rows(monkeypatch):
    kind = Actor.__ray_metadata__.modified_class
    actor = kind(2)
    actor._task = TASK
    assert actor.beats() == (0, ())

    def perform(task, opened, shard, skip, beat, mode):
        beat([1, 2])
        beat([3])
        return (task, opened, shard, skip, mode)

    monkeypatch.setattr(ray_actor, "perform", perform)
    actor._opened = "opened"
    record, seconds = actor.run(SHARD, (7,), Mode.PROBE)
    assert record == (TASK, "opened", SHARD, (7,), Mode.PROBE) and 0 <= seconds < 60
    assert actor.beats() == (2, (3,))


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
    monkeypatch.setattr(ray_actor, "ray", on_paper)
    monkeypatch.setattr(ray_actor, "introduce", lambda task, site: (task.stage, {}))
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
    assert ray_actor._device([]) == "cpu"
    assert ray_actor._device([0]) == ("cuda" if works else "cpu")
    assert ray.is_initialized() is False
