"""A training's progress as lines in its store, which are part of no hash."""

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
    """Reads new lines; a step repeated after resuming occurs twice."""

    def __init__(self, job: Job) -> None:
        """Starts with the first line."""
        self._job, self._at = job, 0

    def new(self) -> list[dict[str, Any]]:
        """Complete lines since the last call; lines truncated by a crash are skipped."""
        data, self._at = self._job.storage.tail(_name(self._job), self._at)
        return events(data)


def _name(job: Job) -> str:
    return f"{job.folder}/progress.jsonl"
