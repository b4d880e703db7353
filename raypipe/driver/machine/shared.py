"""One Ray for one invocation after another: started, or joined, once."""

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from raypipe.cluster.backend import Backend
from raypipe.driver.machine.backends import LazyBackends
from raypipe.errors import RaypipeError

if TYPE_CHECKING:
    from raypipe.cluster.ray_pool import RayBackend


class SharedRay:
    """A Ray that stays when an invocation ends, with the processes that wait for a task."""

    def __init__(self, address: str | None = None, *, allow_open: bool = False) -> None:
        """Starts and joins nothing yet; `address` is that of a cluster, None means this machine."""
        self.address, self._allow_open = address, allow_open
        self._held: LazyBackends | None = None
        self._wanted: tuple[int, ...] = ()
        self._connected = False
        """This process is a client of this Ray, unless that has ended."""
        self._lock = threading.Lock()

    def resources(self) -> Mapping[str, float]:
        """The resources of the cluster now; it is joined at the first call.

        Raises:
            InputError: there is no such cluster; see `ray_start.connect`, also for RefusedError.
        """
        import ray

        from raypipe.cluster import ray_start

        assert self.address is not None
        if self._connected:
            return dict(ray.cluster_resources())
        found = ray_start.connect(self.address, allow_open=self._allow_open)
        self._connected = True
        return found

    def lend(
        self, start: Callable[[], Backend], num_actors: int, wanted: tuple[int, ...]
    ) -> LazyBackends:
        """A source of this Ray's backend for one invocation, whose end leaves it as it is.

        Args:
            start: makes the backend where there is none yet; for a cluster, once it is joined.
            num_actors: the most that a stage gets.
            wanted: what the backend is started with. If the last one was started with other
                numbers, or its Ray has ended, another takes its place.
        """
        return LazyBackends(lambda: self._backend(start, wanted), num_actors, kept=True)

    def _backend(self, start: Callable[[], Backend], wanted: tuple[int, ...]) -> "RayBackend":
        with self._lock:
            if self._held is not None and not (wanted == self._wanted and _runs(self._held)):
                self._end()
            if self._held is None:
                if self.address is not None:
                    self.resources()
                self._held, self._wanted = LazyBackends(start, 1), wanted
            found = _of(self._held)
            self._connected = True
            return found

    def close(self) -> None:
        """End every process, and the Ray that was started here, or leave the cluster."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        held, connected = self._held, self._connected
        self._held, self._connected = None, False
        if held is not None:
            held.close()
        if connected:
            import ray

            ray.shutdown()  # nothing was computed on it, or it ended before its client; or a no-op


def _of(held: LazyBackends) -> "RayBackend":
    from raypipe.cluster.ray_pool import RayBackend

    found = held.get()
    assert isinstance(found, RayBackend)
    return found


def _runs(held: LazyBackends) -> bool:
    """Whether it was started and its Ray has not ended."""
    try:
        _of(held).check()
    except RaypipeError:  # its start failed, or it has ended
        return False
    return True
