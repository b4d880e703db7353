"""One Ray for several invocations; the real one is in tests/api/opened/test_ray.py."""

from types import SimpleNamespace

import pytest

from raypipe.cluster import ray_start
from raypipe.cluster.ray_pool import RayBackend
from raypipe.driver import place as at_place
from raypipe.driver.devices import Devices
from raypipe.driver.place import Place, SharedRay, backends_at, devices_at
from raypipe.errors import IncompleteError, InputError

CPU = Devices("cpu", 0, "", 0, 3, 1, "2")


class Started(RayBackend):
    """A backend without Ray."""

    def __init__(self):
        self.closed, self.ended = 0, False

    def check(self):
        if self.ended:
            raise IncompleteError("Ray has ended")

    def close(self):
        self.closed += 1

    def capacity(self, needs):
        return 9


@pytest.fixture
def made():
    return []


@pytest.fixture
def start(made):
    def one():
        made.append(Started())
        return made[-1]

    return one


def invoke(ray, start, wanted=(1,), actors=2):
    """What an invocation does: takes a backend, works, closes its source."""
    backends = ray.lend(start, actors, wanted)
    found = backends.get()
    assert backends.limits(None, 99).num_actors == actors
    backends.close()
    return found


def test_one_backend_serves_every_invocation_until_it_is_closed(start, made):
    ray = SharedRay()
    assert made == []
    first = invoke(ray, start)
    assert invoke(ray, start, actors=4) is first and len(made) == 1
    assert first.closed == 0
    ray.close()
    ray.close()
    assert first.closed == 1
    assert invoke(ray, start) is made[1]
    ray.close()


def test_an_invocation_that_computes_nothing_starts_nothing(start, made):
    ray = SharedRay()
    ray.lend(start, 1, (1,)).close()
    ray.close()
    assert made == []


def test_other_wishes_or_the_end_of_ray_bring_another_backend(start, made):
    ray = SharedRay()
    first = invoke(ray, start, (1,))
    second = invoke(ray, start, (2,))
    assert second is not first and (first.closed, second.closed) == (1, 0)
    second.ended = True
    third = invoke(ray, start, (2,))
    assert third is not second and second.closed == 1
    assert invoke(ray, start, (2,)) is third


def test_a_client_whose_ray_has_ended_leaves_it_before_another_starts(start, made, monkeypatch):
    """Ray takes no second one beside it."""
    told = []
    monkeypatch.setattr("ray.shutdown", lambda: told.append(len(made)))
    ray = SharedRay()
    invoke(ray, start).ended = True
    invoke(ray, start)
    assert told == [1]
    made[-1].ended = True
    ray.close()
    assert told == [1, 2]


def test_a_ray_that_others_started_is_left_alone(start, monkeypatch):
    monkeypatch.setattr("ray.shutdown", None)
    ray = SharedRay()
    ray.close()

    def refused():
        raise InputError("this process has one already")

    with pytest.raises(InputError):
        invoke(ray, refused)
    ray.close()
    with pytest.raises(InputError):
        invoke(ray, refused)
    monkeypatch.undo()
    assert isinstance(invoke(ray, start), Started), "which then may start"


def test_a_start_that_failed_is_tried_again_by_the_next_invocation(start):
    ray = SharedRay()

    def fails():
        raise IncompleteError("Ray did not start")

    with pytest.raises(IncompleteError, match="did not start"):
        invoke(ray, fails)
    assert isinstance(invoke(ray, start), Started)


@pytest.fixture
def cluster(monkeypatch):
    """Counts what a cluster is asked for."""
    found = SimpleNamespace(joined=[], left=0, CPU=2.0)

    def connect(address, *, allow_open):
        found.joined.append((address, allow_open))
        return {"CPU": found.CPU}

    def shutdown():
        found.left += 1

    monkeypatch.setattr(ray_start, "connect", connect)
    monkeypatch.setattr("ray.cluster_resources", lambda: {"CPU": found.CPU})
    monkeypatch.setattr("ray.shutdown", shutdown)
    return found


def test_a_cluster_is_joined_once_and_asked_again_what_it_has(cluster, start):
    ray = SharedRay("h:1", allow_open=True)
    place = Place("ray", "h:1", shared=ray)
    wanted = {"precision": "fp32", "gpus": "all", "actors": "auto", "threads": 1}
    assert devices_at(place, "cpu", **wanted).num_actors == 2
    cluster.CPU = 5.0
    assert devices_at(place, "cpu", **wanted).num_actors == 5
    invoke(ray, start)
    assert cluster.joined == [("h:1", True)]


def test_a_cluster_is_left_at_the_end_and_joined_again_for_another_backend(cluster, start, made):
    ray = SharedRay("h:1")
    ray.resources()
    ray.close()
    assert cluster.left == 1, "no backend was there to leave it"
    invoke(ray, start, (1,))
    invoke(ray, start, (2,))
    assert len(cluster.joined) == 3
    ray.close()
    assert cluster.left == 3 and [each.closed for each in made] == [1, 1]


def test_a_place_lends_by_threads_and_here_also_by_what_ray_was_started_with(monkeypatch):
    seen = []
    monkeypatch.setattr(at_place.SharedRay, "lend", lambda *given: seen.append(given[2:]))
    monkeypatch.setattr("raypipe.driver.devices.num_cores", lambda: 2)
    backends_at(Place("ray", "h:1", shared=SharedRay("h:1")), CPU)
    backends_at(Place("ray", shared=SharedRay()), CPU)
    assert seen == [(3, (1,)), (3, (1, 0, 3))]


@pytest.mark.parametrize("place", [Place("inline", shared=SharedRay()), Place("inline")])
def test_inline_work_needs_no_ray(place):
    backends = backends_at(place, CPU)
    assert type(backends.get()).__name__ == "InlineBackend"
    backends.close()
