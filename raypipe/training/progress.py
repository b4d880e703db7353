"""A training's progress as lines in its store, which are part of no hash."""

import json
from collections.abc import Mapping
from typing import Any

from raypipe.shapes import Count, Shape, fits
from raypipe.storage.ledger import events
from raypipe.storage.records import Json
from raypipe.training.job import Job


def write_progress(job: Job, event: Mapping[str, Json]) -> None:
    """Add a line."""
    job.storage.append(_name(job), json.dumps(event).encode())


class Reader:
    """Reads new lines; a step repeated after resuming occurs twice."""

    def __init__(self, job: Job) -> None:
        """Starts with the first line."""
        self._job, self._at = job, 0

    def new(self) -> list[dict[str, Any]]:
        """Complete lines since the last call; truncated and damaged ones are skipped."""
        data, self._at = self._job.storage.tail(_name(self._job), self._at)
        return [event for event in events(data) if fits(event, _shape_of(event))]


class _Event(Shape):
    step: Count


class _Note(_Event):
    note: str


class _Measurement(_Event):
    measure: str
    mean: float
    of: dict[str, float]


class _Step(_Event):
    loss: float
    rate: float
    gradient_norm: float
    tokens: Count = 0
    seconds: float = 0.0


def _shape_of(event: Mapping[str, Any]) -> type[Shape]:
    shapes: dict[str, type[Shape]] = {"note": _Note, "mean": _Measurement, "loss": _Step}
    return next((shape for key, shape in shapes.items() if key in event), _Event)


def _name(job: Job) -> str:
    return f"{job.folder}/progress.jsonl"
