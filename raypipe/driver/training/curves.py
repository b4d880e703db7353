"""A training's curves as files: FOLDER/progress.jsonl and FOLDER/tensorboard."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from raypipe.storage.files import remove, started_over
from raypipe.storage.records import Json


def ordered(events: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The last line of each step, by step: a resumed training writes some steps twice."""
    steps = {(event["step"], "mean" in event): event for event in events if "note" not in event}
    return [steps[key] for key in sorted(steps)]


def values_of(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """The values of a step, or of a measurement by dev set (with the mean of several)."""
    if "mean" not in event:
        return event
    several = len(event["of"]) > 1
    return {**event["of"], "mean": event["mean"]} if several else event["of"]


class Curves:
    """The two files, rewritten from the known lines."""

    def __init__(self, folder: Path, known: Iterable[Mapping[str, Json]]) -> None:
        """Writes the known lines at once."""
        from tensorboardX import SummaryWriter

        self._lines = started_over(folder / "progress.jsonl")
        remove(folder / "tensorboard")  # each writer's file there has a name of its own
        self._writer = SummaryWriter(str(folder / "tensorboard"), flush_secs=10)
        for event in known:
            self.add(event)

    def add(self, event: Mapping[str, Any]) -> None:
        """Add a step or a measurement; notes are not part of the curves."""
        if "note" in event:
            return
        self._lines.write(json.dumps(event) + "\n")
        for name, value in values_of(event).items():
            if isinstance(value, int | float) and name != "step":
                shown = f"{event['measure']}/{name}" if "mean" in event else f"train/{name}"
                self._writer.add_scalar(shown, value, event["step"])

    def close(self) -> None:
        """Flush and close both."""
        self._lines.close()
        self._writer.close()
