"""The backend a recipe asks for, started when the first shard needs it."""

import threading
from collections.abc import Callable

from raypipe.cluster.backend import Backend
from raypipe.cluster.report import Limits
from raypipe.stages.stage import Needs


class LazyBackends:
    """One backend per invocation; `start` is called once, in the background if there is time."""

    def __init__(
        self, start: Callable[[], Backend], num_actors: int, *, kept: bool = False
    ) -> None:
        """Starts nothing yet.

        Args:
            start: makes the backend.
            num_actors: the most that a stage gets.
            kept: whether others use the backend too, so that `close` leaves it as it is.
        """
        self._start, self._num_actors, self._kept = start, num_actors, kept
        self._thread: threading.Thread | None = None
        self._backend: Backend | None = None
        self._error: BaseException | None = None
        self._started, self._closed = threading.Event(), threading.Event()

    def warm(self) -> None:
        """See Backends."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="start backend", daemon=True)
            self._thread.start()

    def get(self) -> Backend:
        """See Backends."""
        self.warm()
        self._started.wait()
        if self._error is not None:
            raise self._error
        assert self._backend is not None
        return self._backend

    def limits(self, needs: Needs, shards: int) -> Limits:
        """See Backends; as many actors as fit and have work."""
        fitting = self.get().capacity(needs)
        return Limits(num_actors=max(1, min(self._num_actors, fitting, shards)))

    def close(self) -> None:
        """Close the backend if it was started; further calls do nothing."""
        if self._closed.is_set():
            return
        if self._thread is not None:
            self._started.wait()
        if self._backend is not None and not self._kept:
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
