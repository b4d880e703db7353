"""Reports of a Ray training's workers to the driver: lines in the training's store."""

import json
from typing import Any

from raypipe.storage import log
from raypipe.storage.holder import this_process
from raypipe.storage.records import Json
from raypipe.training.job import Job


def note_worker(job: Job) -> None:
    """Record this process as a worker of the training."""
    _note(job, {"event": "worker", "process": this_process().to_json()})


def note_problem(job: Job, reason: str) -> None:
    """Record why the training itself cannot continue."""
    _note(job, {"event": "problem", "reason": reason})


def events(job: Job) -> list[dict[str, Any]]:
    """The complete lines so far."""
    try:
        return log.events(job.storage.read(_name(job)))
    except FileNotFoundError:
        return []


def _note(job: Job, event: dict[str, Json]) -> None:
    job.storage.append(_name(job), json.dumps(event).encode())


def _name(job: Job) -> str:
    return f"{job.folder}/attempts.jsonl"
