"""Actors without work, whose processes the next stages take over.

A process takes a second or two of a core to start and to import its libraries: for a recipe of many
short stages that is most of its time.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Kind(NamedTuple):
    """What a process is started with; it serves only tasks of its kind.

    A process sees the same GPUs and the same environment as long as it lives. One that holds a GPU
    computes on it, any other on the CPU.
    """

    num_cpus: float
    num_gpus: float
    jvm: bool
    """Its tasks start a JVM, whose memory it keeps until it ends."""
    environment: tuple[tuple[str, str], ...] = ()


class _Waiting(NamedTuple):
    since: float
    ready: bool
    kind: Kind
    actor: Any


class IdleActors:
    """Actors that wait for a task, each with what it holds of its node."""

    def __init__(self, end: Callable[[Any], None], *, seconds: float) -> None:
        """`end` ends an actor's process; a thread calls it for those that wait so many seconds."""
        self._end, self._seconds = end, seconds
        self._lock = threading.Lock()
        self._waiting: list[_Waiting] = []
        self._timer: threading.Timer | None = None

    def add(self, actor: Any, kind: Kind, *, ready: bool = True) -> None:
        """Keep an actor of this kind; one that is not ready still opens a stage nobody wants."""
        with self._lock:
            self._waiting.append(_Waiting(time.monotonic(), ready, kind, actor))
            self._wake_later()

    def take(self, kind: Kind) -> Any | None:
        """An actor of this kind; None if there is none.

        Ready ones come first, and of these the one that came last: so the others' time runs out
        if there is work for few.
        """
        with self._lock:
            fitting = [waiting for waiting in self._waiting if waiting.kind == kind]
            if not fitting:
                return None
            found = max(fitting, key=lambda waiting: (waiting.ready, waiting.since))
            self._waiting.remove(found)
        return found.actor

    def make_room(self, fits: Callable[[Sequence[Kind]], bool]) -> None:
        """End one after the other, the longest waiting first, until the rest leaves enough room."""
        with self._lock:
            while self._waiting and not fits([waiting.kind for waiting in self._waiting]):
                self._end(self._waiting.pop(0).actor)

    def end(self) -> None:
        """End them all."""
        self._end_older_than(0.0)

    def _end_older_than(self, seconds: float) -> None:
        with self._lock:
            now = time.monotonic()
            old = [waiting for waiting in self._waiting if now - waiting.since >= seconds]
            self._waiting = [waiting for waiting in self._waiting if waiting not in old]
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None
            self._wake_later()
            # Within the lock: who ends them all may then leave the cluster at once.
            for waiting in old:
                self._end(waiting.actor)

    def _wake_later(self) -> None:
        if self._waiting and self._timer is None:
            left = self._waiting[0].since + self._seconds - time.monotonic()
            self._timer = threading.Timer(max(0.0, left), self._end_older_than, [self._seconds])
            self._timer.daemon = True
            self._timer.start()
