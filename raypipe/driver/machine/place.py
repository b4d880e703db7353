"""Where an invocation runs: its devices, and the backend that is started for them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from raypipe.cluster.backend import Backend
from raypipe.cluster.inline import InlineBackend
from raypipe.driver.machine import devices
from raypipe.driver.machine.backends import LazyBackends
from raypipe.driver.machine.devices import Devices
from raypipe.driver.machine.shared import SharedRay
from raypipe.errors import RaypipeError


@dataclass(frozen=True, slots=True)
class Place:
    """This process, a Ray of its own on this machine, or a Ray cluster to join."""

    backend: str
    """ray or inline."""
    ray_address: str | None = None
    """Of a cluster; None starts a Ray of this process alone."""
    allow_open_cluster: bool = False
    shared: SharedRay | None = None
    """The Ray of several invocations, with the same address; None means one of its own."""

    @property
    def joins(self) -> bool:
        """Whether a cluster is joined; inline work stays here."""
        return self.ray_address is not None and self.backend == "ray"


def devices_at(
    place: Place,
    device: str,
    *,
    should_stop: Callable[[], RaypipeError | None] = lambda: None,
    **asked: Any,
) -> Devices:
    """Devices of this machine, or of the cluster, which is joined now: its head may have none.

    Args:
        place: where to look.
        device: auto, cpu or cuda.
        should_stop: returns an error that ends the wait for a GPU worker's answer.
        asked: `precision`, `gpus`, `actors` and `threads` of the recipe's resources; see
            `devices.choose`.
    """
    if not place.joins or place.ray_address is None:
        return devices.choose(device, **asked)
    from raypipe.cluster import ray_start
    from raypipe.driver.machine.capability import gpu_capability

    if place.shared is not None:
        resources = place.shared.resources()
    else:
        resources = ray_start.connect(place.ray_address, allow_open=place.allow_open_cluster)
    capability = partial(gpu_capability, should_stop)
    return devices.of_cluster(resources, device, capability=capability, **asked)


def backends_at(place: Place, chosen: Devices) -> LazyBackends:
    """A source of backends for these devices; one is started when the first shard needs it."""
    actors = chosen.num_actors
    if place.shared is None or place.backend == "inline":
        return LazyBackends(lambda: started(place, chosen, num_cpus=actors), actors)
    num_cpus = max(devices.num_cores(), actors)
    wanted = (chosen.threads,) if place.joins else (chosen.threads, chosen.num_gpus, num_cpus)
    return place.shared.lend(lambda: started(place, chosen, num_cpus=actors), actors, wanted)


def started(place: Place, chosen: Devices, *, num_cpus: int) -> Backend:
    """The backend; with Ray the cluster that was joined, or a new Ray of at least so many CPUs."""
    if place.backend == "inline":
        return InlineBackend(device=chosen.device, threads=chosen.threads)
    from raypipe.cluster import ray_start
    from raypipe.cluster.ray_pool import RayBackend

    if place.joins:
        return RayBackend(threads=chosen.threads, joined=ray_start.JoinedRay())
    local = ray_start.start_local(
        num_cpus=max(devices.num_cores(), num_cpus),
        num_gpus=chosen.num_gpus,
        threads=chosen.threads,
    )
    return RayBackend(threads=chosen.threads, local=local)
