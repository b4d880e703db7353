import pytest

from raypipe.config.parts import Resources
from raypipe.config.training import TrainResources
from raypipe.driver import devices
from raypipe.driver.devices import Devices
from raypipe.driver.execute import Execution
from raypipe.driver.pipeline import Options
from raypipe.driver.place import WorkPlace, devices_at, place_for, started
from raypipe.driver.recipe.graph import Graph
from raypipe.driver.training.place import TrainOptions
from raypipe.driver.workspace import Workspace
from raypipe.stages.stage import Needs


def test_nothing_may_fail_or_is_forbidden_unless_asked(tmp_path):
    execution = Execution(Workspace(tmp_path), None, None, None)
    assert (execution.max_failed_rows, execution.numerics_one) == (0, False)
    assert execution.should_stop() is None
    assert Options() == Options(None, False, None, False)
    assert TrainOptions() == TrainOptions(None, False)
    graph = Graph(None, None)
    assert (graph.needs, graph.budget_tokens, graph.models) == (Needs(), None, {})


CUDA = Devices("cuda", 2, "H", 4, 6, 3, "2")


@pytest.fixture
def ray(monkeypatch):
    """What is asked of Ray, which is not started."""
    from raypipe.cluster import ray_pool, ray_start

    asked = []

    def connect(address, *, allow_open=False):
        asked.append(("connect", address, allow_open))
        return {"CPU": 4.0}

    def local(**given):
        asked.append(("local", given))
        return "local"

    monkeypatch.setattr(ray_start, "connect", connect)
    monkeypatch.setattr(ray_start, "start_local", local)
    monkeypatch.setattr(ray_start, "JoinedRay", lambda: "joined")
    monkeypatch.setattr(ray_pool, "RayBackend", lambda **given: asked.append(("backend", given)))
    monkeypatch.setattr(devices, "num_cores", lambda: 5)
    return asked


def test_a_cluster_is_joined_and_one_of_our_own_is_begun(ray):
    joined = WorkPlace("ray", "x:1", allow_open_cluster=True)
    wanted = Resources(threads=2, precision="fp32")
    assert devices_at(joined, wanted).num_actors == 2  # 4 cores, 2 threads each
    devices_at(WorkPlace("ray", "x:1"), wanted)
    started(joined, CUDA, num_cpus=6)
    started(WorkPlace("ray"), CUDA, num_cpus=6)
    assert ray == [
        ("connect", "x:1", True),
        ("connect", "x:1", False),
        ("backend", {"threads": 3, "joined": "joined"}),
        ("local", {"num_cpus": 6, "num_gpus": 2, "threads": 3}),
        ("backend", {"threads": 3, "local": "local"}),
    ]


def test_a_training_begins_a_ray_with_the_cores_of_its_workers(ray, monkeypatch):
    with place_for(trained(), WorkPlace("ray", "x:1", allow_open_cluster=True)) as place:
        assert place.devices.num_actors == 2  # 4 cores, 2 threads each
        place.backends._start()
    monkeypatch.setattr(devices, "choose", lambda *given, **asked: CUDA)
    for resources in (trained(), trained(workers=1)):
        with place_for(resources, WorkPlace("ray")) as place:
            place.backends._start()
    assert ray == [
        ("connect", "x:1", True),
        ("backend", {"threads": 2, "joined": "joined"}),
        ("local", {"num_cpus": 8, "num_gpus": 2, "threads": 3}),
        ("backend", {"threads": 3, "local": "local"}),
        ("local", {"num_cpus": 5, "num_gpus": 2, "threads": 3}),
        ("backend", {"threads": 3, "local": "local"}),
    ]


def trained(**resources):
    return TrainResources(**{"threads": 2, "workers": 4, **resources})
