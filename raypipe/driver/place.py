"""Where an invocation runs: its devices, and the backend that is started for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from raypipe.config.parts import Resources
from raypipe.driver import devices
from raypipe.driver.devices import Devices
from raypipe.errors import RaypipeError
from raypipe.stages.stage import Needs, Sizing

if TYPE_CHECKING:
    from raypipe.cluster.backend import Backend
    from raypipe.cluster.report import Limits
    from raypipe.config.training import TrainResources


class LazyBackends:
    """One backend per invocation; `start` is called once, in the background if there is time."""

    def __init__(self, start: Callable[[], Backend], num_actors: int) -> None:
        """Starts nothing yet.

        Args:
            start: makes the backend.
            num_actors: the most that a stage gets.
        """
        self._start, self._num_actors = start, num_actors
        self._thread: threading.Thread | None = None
        self._backend: Backend | None = None
        self._error: BaseException | None = None
        self._started, self._closed = threading.Event(), threading.Event()

    def warm(self) -> None:
        """Start the backend in the background."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="start backend", daemon=True)
            self._thread.start()

    def get(self) -> Backend:
        """The backend, started."""
        self.warm()
        self._started.wait()
        if self._error is not None:
            raise self._error
        assert self._backend is not None
        return self._backend

    def limits(self, needs: Needs, shards: int) -> Limits:
        """The limits for such a stage: as many actors as fit and have work."""
        from raypipe.cluster.report import Limits

        fitting = self.get().capacity(needs)
        return Limits(num_actors=max(1, min(self._num_actors, fitting, shards)))

    def close(self) -> None:
        """Close the backend if it was started; further calls do nothing."""
        if self._closed.is_set():
            return
        if self._thread is not None:
            self._started.wait()
        if self._backend is not None:
            self._backend.close()
        self._closed.set()

    def _run(self) -> None:
        try:
            self._backend = self._start()
        except BaseException as error:  # raised when the backend is requested
            self._error = error
        self._started.set()
        # Linux ends Ray's processes with the thread that started them (PR_SET_PDEATHSIG), so that a
        # killed driver leaves none behind. So this thread must live as long as the backend.
        self._closed.wait()


@dataclass(frozen=True, slots=True)
class WorkPlace:
    """This process, a Ray of its own on this machine, or a Ray cluster to join."""

    backend: str
    """ray or inline."""
    ray_address: str | None = None
    """Of a cluster; None starts a Ray of this process alone."""
    allow_open_cluster: bool = False

    @property
    def joins(self) -> bool:
        """Whether a cluster is joined; inline work stays here."""
        return self.ray_address is not None and self.backend == "ray"


def devices_at(
    place: WorkPlace,
    wanted: Resources | TrainResources,
    should_stop: Callable[[], RaypipeError | None] = lambda: None,
) -> Devices:
    """Devices of this machine, or of the cluster, which is joined now: its head may have none.

    A training computes in the precision of its recipe, on whatever device: nobody is asked for one.

    Args:
        place: where to look.
        wanted: of the recipe.
        should_stop: returns an error that ends the wait for a GPU worker's answer.

    Raises:
        InputError: see `devices.choose`.
    """
    options: dict[str, Any] = {"precision": "fp32", "threads": wanted.threads}
    if isinstance(wanted, Resources):
        options |= {name: getattr(wanted, name) for name in ("precision", "gpus", "actors")}
    if not place.joins or place.ray_address is None:
        chosen = devices.choose(wanted.device, **options)
        return replace(chosen, inline=place.backend == "inline")
    from raypipe.cluster import ray_start

    resources = ray_start.connect(place.ray_address, allow_open=place.allow_open_cluster)
    cluster = devices.of_cluster(resources, should_stop)
    return devices.choose(wanted.device, hardware=cluster, **options)


@dataclass(frozen=True, slots=True)
class ChosenPlace:
    """Devices, their backend, and the sizes of shards of an invocation."""

    devices: Devices
    backends: LazyBackends
    resources: Resources | TrainResources
    """In the precision of the devices."""

    @property
    def sizing(self) -> Sizing:
        """The sizes of shards that the recipe asks for, or those of the device."""
        return sizing_of(self.resources, self.devices)


@contextmanager
def place_for(
    wanted: Resources | TrainResources,
    at: WorkPlace,
    inline: bool = False,
    should_stop: Callable[[], RaypipeError | None] = lambda: None,
) -> Iterator[ChosenPlace]:
    """The place of an invocation; its backend is closed when the block ends.

    A training's backend has the cores of its workers, who come after those of the stages.

    Args:
        wanted: of the recipe.
        at: where to look for devices.
        inline: whether one worker of this process is to have all cores, wherever else it may work.
        should_stop: see `devices_at`.

    Raises:
        InputError: see `devices_at`.
    """
    asked = wanted
    if inline:
        asked = wanted.model_copy(update={"backend": "inline", "actors": 1})
        at = replace(at, backend="inline")
    chosen = devices_at(at, asked, should_stop)
    num_cpus = chosen.num_actors
    if not isinstance(wanted, Resources):
        chosen = replace(chosen, num_actors=max(num_cpus, 1), precision=wanted.precision)
        num_cpus = wanted.workers * threads_of(wanted, at, chosen)
    resources = wanted.model_copy(update={"precision": chosen.precision})
    backends = LazyBackends(lambda: started(at, chosen, num_cpus=num_cpus), chosen.num_actors)
    try:
        yield ChosenPlace(chosen, backends, resources)
    finally:
        backends.close()


SHARD_TOKENS = {"cpu": 60_000, "cuda": 4_000_000}
"""About 10 s of MiniLM on one core, so that progress is visible; about 4M tokens on a GPU."""


def sizing_of(wanted: Resources | TrainResources, chosen: Devices) -> Sizing:
    """The sizes of shards that the recipe asks for, or those of the device."""
    if not isinstance(wanted, Resources):
        return Sizing(num_actors=chosen.num_actors)
    tokens = wanted.shard_tokens
    return Sizing(
        num_actors=chosen.num_actors,
        shard_tokens=tokens if isinstance(tokens, int) else SHARD_TOKENS[chosen.device],
        shard_rows=wanted.shard_rows,
        shard_queries=wanted.shard_queries,
    )


def threads_of(wanted: TrainResources, at: WorkPlace, chosen: Devices) -> int:
    """Threads of each of a training's workers: the recipe's number, or a share of the cores.

    On a cluster it is 1 unless the recipe says otherwise: its nodes may differ from this machine.
    """
    if isinstance(wanted.threads, int):
        return wanted.threads
    if at.joins:
        return chosen.threads
    return max(1, devices.num_cores() // max(wanted.workers, chosen.num_gpus))


def started(place: WorkPlace, chosen: Devices, *, num_cpus: int) -> Backend:
    """The backend; with Ray the cluster that was joined, or a new Ray of at least so many CPUs."""
    if place.backend == "inline":
        from raypipe.cluster.worker import InlineBackend

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
