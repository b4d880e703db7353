"""A training's curves as files: FOLDER/progress.jsonl and FOLDER/tensorboard."""

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from raypipe.storage.records import Json


def ordered(events: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Each step's last line, by step: a resumed training has some of them twice."""
    steps = {(event["step"], "mean" in event): event for event in events if "note" not in event}
    return [steps[key] for key in sorted(steps)]


def values_of(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """The numbers of a step; of a measurement by dev set, and their mean where it is another."""
    if "mean" not in event:
        return event
    several = len(event["of"]) > 1
    return {**event["of"], "mean": event["mean"]} if several else event["of"]


class Curves:
    """The files, begun anew with what is known."""

    def __init__(self, folder: Path, known: Iterable[Mapping[str, Json]]) -> None:
        """Writes what is known at once."""
        from tensorboardX import SummaryWriter

        folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(folder / "tensorboard", ignore_errors=True)
        self._lines = (folder / "progress.jsonl").open("w", buffering=1)
        self._writer = SummaryWriter(str(folder / "tensorboard"), flush_secs=10)
        for event in known:
            self.add(event)

    def add(self, event: Mapping[str, Any]) -> None:
        """A step or a measurement; notes are no point of a curve."""
        if "note" in event:
            return
        self._lines.write(json.dumps(event) + "\n")
        for name, value in values_of(event).items():
            if isinstance(value, int | float) and name != "step":
                shown = f"{event['measure']}/{name}" if "mean" in event else f"train/{name}"
                self._writer.add_scalar(shown, value, event["step"])

    def close(self) -> None:
        """Flush both."""
        self._lines.close()
        self._writer.close()
