"""A training's progress as lines in its store; no hash covers them."""

import json
from collections.abc import Mapping
from typing import Any

from raypipe.storage.records import Json
from raypipe.training.job import Job


def write_progress(job: Job, event: Mapping[str, Json]) -> None:
    """Add a line."""
    job.storage.append(_name(job), json.dumps(event).encode())


def read_progress(job: Job) -> list[dict[str, Any]]:
    """Every whole line so far, in the order they were written; a resumed step stands twice."""
    try:
        lines = job.storage.read(_name(job)).split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in lines]


def _name(job: Job) -> str:
    return f"{job.folder}/progress.jsonl"
