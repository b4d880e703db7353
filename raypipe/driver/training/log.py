"""A running training's progress: lines on the terminal and curves for TensorBoard."""

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

from raypipe.config.training import steps_of
from raypipe.driver.training.curves import Curves, ordered, values_of
from raypipe.storage.records import Json
from raypipe.training.checkpoints import Reader, history_of, write_progress
from raypipe.training.job import Job
from raypipe.training.validate import progress_of

LOOK_SECONDS = 2.0
TELL_SECONDS = 10.0


class Follower:
    """A context manager that reads what the first worker writes, wherever that runs."""

    def __init__(self, job: Job, folder: Path, say: Callable[[str], None]) -> None:
        """Reads nothing yet."""
        self._job, self.folder, self._say = job, folder, say
        self._reader = Reader(job)
        self._spoken = float("-inf")
        self._tokens, self._seconds = 0, 0.0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="training log", daemon=True)

    def write(self, event: Mapping[str, Json]) -> None:
        """Add a line, as the first worker of an inline training does."""
        write_progress(self._job, event)

    def __enter__(self) -> "Follower":
        self._curves = Curves(self.folder, ordered(self._reader.new()))  # earlier lines
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
        self._curves.close()
        # A process killed after recording a measurement may not have written its line.
        history = history_of(self._job)
        start, counted = history.start(), history.counted(steps_of(self._job.recipe))
        measured = counted if start is None else [start, *counted]
        events = [*(progress_of(self._job, each) for each in measured), *Reader(self._job).new()]
        Curves(self.folder, ordered(events)).close()

    def _follow(self) -> None:
        while not self._end.wait(LOOK_SECONDS):
            self._look()

    def _look(self) -> None:
        for event in self._reader.new():
            self._curves.add(event)
            self._tokens += int(event.get("tokens", 0))
            self._seconds += float(event.get("seconds", 0.0))
            if "note" in event:
                self._say(f"train: step {event['step']:,}: {event['note']}")
            elif "mean" in event:
                values = ", ".join(
                    f"{name} {value:.4f}" for name, value in values_of(event).items()
                )
                when = f"step {event['step']:,}" if event["step"] else "step 0, the start model"
                self._say(f"train: {when}: {event['measure']} {values}")
            elif time.monotonic() - self._spoken > TELL_SECONDS:
                self._speak(event)

    def _speak(self, event: Mapping[str, Json]) -> None:
        self._say(
            f"train: step {event['step']:,} of {steps_of(self._job.recipe):,}: loss "
            f"{event['loss']:.4f}, rate {event['rate']:.2e}, "
            f"gradient {event['gradient_norm']:.2f}, "
            f"{self._tokens / max(self._seconds, 1e-3):,.0f} tokens/s"
        )
        self._spoken, self._tokens, self._seconds = time.monotonic(), 0, 0.0
