"""Where an invocation runs: here, on a Ray of its own, or in a cluster."""

from raypipe.config.parts import Resources
from raypipe.driver.place import WorkPlace, devices_at, started


def test_inline_work_stays_here_and_has_the_device_and_threads_asked_for():
    place = WorkPlace("inline", "elsewhere:1")
    assert not place.joins
    chosen = devices_at(place, Resources(device="cpu", actors=3, threads=2))
    assert (chosen.device, chosen.num_actors, chosen.threads) == ("cpu", 3, 2)
    assert chosen.line().endswith(", 1 process x 2 threads")
    on_ray = devices_at(WorkPlace("ray"), Resources(device="cpu", actors=3, threads=2))
    assert on_ray.line().endswith(", 3 actors x 2 threads")
    backend = started(place, chosen, num_cpus=9)
    assert type(backend).__name__ == "InlineBackend"
    assert (backend._device, backend._threads) == ("cpu", 2)


def test_only_ray_with_an_address_joins_a_cluster():
    assert WorkPlace("ray", "x:1").joins and not WorkPlace("ray").joins
    assert not WorkPlace("ray").allow_open_cluster
