"""A training's progress as lines in its store; no hash covers them."""

import json
from collections.abc import Mapping
from typing import Any

from raypipe.storage.log import events
from raypipe.storage.records import Json
from raypipe.training.job import Job


def write_progress(job: Job, event: Mapping[str, Json]) -> None:
    """Add a line."""
    job.storage.append(_name(job), json.dumps(event).encode())


class Reader:
    """The lines from where it last stopped; a resumed step stands twice."""

    def __init__(self, job: Job) -> None:
        """From the first line on."""
        self._job, self._at = job, 0

    def new(self) -> list[dict[str, Any]]:
        """Whole lines that came since the last call; those that a crash tore are passed over."""
        data, self._at = self._job.storage.tail(_name(self._job), self._at)
        return events(data)


def _name(job: Job) -> str:
    return f"{job.folder}/progress.jsonl"
