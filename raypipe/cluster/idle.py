"""Actors without work, whose processes the next stages take over.

A process takes about a second of a core to start and to import its libraries: for a recipe of many
short stages that is most of its time.
"""

from collections.abc import Callable
from typing import Any

from raypipe.stages.stage import Needs


class IdleActors:
    """Actors that wait for a task, each with what it holds of its node."""

    def __init__(self, end: Callable[[Any], None]) -> None:
        """`end` ends an actor's process."""
        self._end = end
        self._waiting: list[tuple[Needs, Any]] = []

    def add(self, actor: Any, needs: Needs) -> None:
        """Keep an actor that was started with these needs."""
        self._waiting.append((needs, actor))

    def take(self, needs: Needs) -> Any | None:
        """An actor that was started with these needs; None if there is none.

        The others are ended: what they hold may be what the task needs.
        """
        fitting = [actor for held, actor in self._waiting if held == needs]
        others = [actor for held, actor in self._waiting if held != needs]
        self._waiting = [(needs, actor) for actor in fitting[1:]]
        for actor in others:
            self._end(actor)
        return fitting[0] if fitting else None

    def end(self) -> None:
        """End them all."""
        while self._waiting:
            self._end(self._waiting.pop()[1])
