"""Actors without work, whose processes the next stages take over.

A process takes a second or two of a core to start and to import its libraries: for a recipe of many
short stages that is most of its time.
"""

import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from raypipe.stages.stage import Needs

IDLE_SECONDS = 10.0
"""How long an actor waits for a task. Then what it holds of its node is free for others."""


class _Waiting(NamedTuple):
    since: float
    needs: Needs
    actor: Any


class IdleActors:
    """Actors that wait for a task, each with what it holds of its node."""

    def __init__(self, end: Callable[[Any], None], *, seconds: float = IDLE_SECONDS) -> None:
        """`end` ends an actor's process; a thread calls it for those that wait too long."""
        self._end, self._seconds = end, seconds
        self._lock = threading.Lock()
        self._waiting: list[_Waiting] = []
        self._timer: threading.Timer | None = None

    def add(self, actor: Any, needs: Needs) -> None:
        """Keep an actor that was started with these needs."""
        with self._lock:
            self._waiting.append(_Waiting(time.monotonic(), needs, actor))
            self._wake_later()

    def take(self, needs: Needs) -> Any | None:
        """An actor that was started with these needs; None if there is none.

        The others are ended: what they hold may be what the task needs.
        """
        with self._lock:
            fitting = [waiting for waiting in self._waiting if waiting.needs == needs]
            others = [waiting for waiting in self._waiting if waiting.needs != needs]
            self._waiting = fitting[1:]
            for waiting in others:
                self._end(waiting.actor)
        return fitting[0].actor if fitting else None

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
