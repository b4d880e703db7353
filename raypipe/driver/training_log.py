"""A training's progress: jsonl in the store, lines on the terminal, curves for TensorBoard."""

import json
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from raypipe.storage.records import Json
from raypipe.training.job import Job
from raypipe.training.progress import Reader, write_progress

LOOK_SECONDS = 2.0
TELL_SECONDS = 10.0


class Follower:
    """Reads what the first worker writes, wherever it runs; a context, while it trains."""

    def __init__(self, job: Job, folder: Path, say: Callable[[str], None]) -> None:
        """Nothing is read yet."""
        self._job, self._folder, self._say = job, folder, say
        self._reader = Reader(job)
        self._spoken = float("-inf")
        self._tokens = 0
        self._since = time.monotonic()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="training log", daemon=True)

    def write(self, event: Mapping[str, Json]) -> None:
        """Add a line, as the first worker of an inline training does."""
        write_progress(self._job, event)

    def __enter__(self) -> "Follower":
        self._reader.new()  # what an earlier invocation told
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end.set()
        self._thread.join()
        self._look()
        write_curves(self._job, self._folder)

    def _follow(self) -> None:
        while not self._end.wait(LOOK_SECONDS):
            self._look()

    def _look(self) -> None:
        for event in self._reader.new():
            self._tokens += int(event.get("tokens", 0))
            if "note" in event:
                self._say(f"train: step {event['step']:,}: {event['note']}")
            elif "mean" in event:
                values = ", ".join(f"{name} {value:.4f}" for name, value in event["of"].items())
                self._say(f"train: step {event['step']:,}: {event['measure']} {values}")
            elif time.monotonic() - self._spoken > TELL_SECONDS:
                self._speak(event)

    def _speak(self, event: Mapping[str, Json]) -> None:
        seconds = time.monotonic() - self._since
        self._say(
            f"train: step {event['step']:,} of {self._job.recipe.steps:,}: loss "
            f"{event['loss']:.4f}, rate {event['rate']:.2e}, "
            f"gradient {event['gradient_norm']:.2f}, "
            f"{self._tokens / max(seconds, 1e-3):,.0f} tokens/s"
        )
        self._spoken, self._since, self._tokens = time.monotonic(), time.monotonic(), 0


def write_curves(job: Job, folder: Path) -> None:
    """FOLDER/progress.jsonl and FOLDER/tensorboard: each step's last line, in order."""
    from tensorboardX import SummaryWriter

    steps: dict[tuple[int, bool], dict[str, Any]] = {}
    for event in Reader(job).new():
        if "note" in event:
            continue
        steps[event["step"], "mean" in event] = event
    folder.mkdir(parents=True, exist_ok=True)
    ordered = [steps[key] for key in sorted(steps)]
    text = "".join(json.dumps(event) + "\n" for event in ordered)
    (folder / "progress.jsonl").write_text(text)
    shutil.rmtree(folder / "tensorboard", ignore_errors=True)
    with SummaryWriter(str(folder / "tensorboard")) as writer:
        for event in ordered:
            for name, value in event.get("of", event).items():
                if isinstance(value, int | float) and name != "step":
                    shown = f"{event['measure']}/{name}" if "mean" in event else f"train/{name}"
                    writer.add_scalar(shown, value, event["step"])


def training_table(
    job: Job, history: Sequence[Mapping[str, Json]], told: Sequence[str], saw: str
) -> str:
    """The measurements as Markdown, and what was trained on."""
    recipe = job.recipe
    lines = [f"# {recipe.name}", ""]
    if history:
        names = list(recipe.dev)
        assert recipe.validate_ is not None
        lines += [f"{recipe.validate_.measure} on dev sets:", ""]
        lines += [f"| step | {' | '.join(names)} | mean |", f"|{'---|' * (len(names) + 2)}"]
        best = max(history, key=lambda each: each["mean"])
        for each in history:
            values = " | ".join(f"{value:.4f}" for value in each["values"])
            mark = " (chosen)" if each is best else ""
            lines.append(f"| {each['step']:,}{mark} | {values} | {each['mean']:.4f} |")
        chosen = "the model is the checkpoint that is best here: these are no test figures"
        lines += ["", f"- {chosen}"]
    lines += [f"- {line}" for line in told]
    lines.append(f"- its weights have seen: {saw}")
    return "\n".join(lines) + "\n"
