"""Checkpoints, measurements and progress of a training, in its store.

Saving a checkpoint takes two steps, like everything durable here: a payload under its SHA-256, then
the exclusive creation of a small record that names it. A file left by a killed worker is never
used. A measurement is one record, created once. Lines of progress are part of no hash.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from raypipe.config.training import Training, Validate, steps_of
from raypipe.errors import InputError
from raypipe.storage.ledger import events, work_label
from raypipe.storage.payloads import writing
from raypipe.storage.records import (
    Count,
    Json,
    Place,
    Shape,
    check_shape,
    fits,
    hash_file,
    seal,
    unseal,
)
from raypipe.storage.storage import Storage
from raypipe.training.job import Job
from raypipe.vocabulary import MASKED_WORD_LOSS

KEPT = 2
"""Number of newest checkpoints to keep, besides the best one and those still to be measured."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state after `step` updates."""

    step: int
    sha256: str
    facts: Mapping[str, Json]
    """The workers that computed it."""


class _CheckpointShape(Shape):
    step: Count
    sha256: Place
    facts: dict[str, Json]


class Checkpoints:
    """The checkpoints of one training, in its store's folder."""

    def __init__(self, storage: Storage, folder: str) -> None:
        """`folder` is STORE/FINGERPRINT."""
        store, fingerprint = folder.split("/")
        self._storage = storage.owned(work_label(store, fingerprint))
        self._folder = folder

    def save(self, step: int, state: Mapping[str, Tensor], facts: Mapping[str, Json]) -> Checkpoint:
        """Store a state durably and register it."""
        path = self._storage.scratch() / "state.safetensors"
        kept = {name: tensor.detach().contiguous().cpu() for name, tensor in state.items()}
        # No other checkpoint has these bytes, so pruning never removes another's blob.
        with writing(path):
            save_file(kept, path, metadata={"checkpoint": f"{self._folder}/{step}"})
        sha256 = hash_file(path)
        self._storage.put(sha256, path)
        record = {"step": step, "sha256": sha256, "facts": dict(facts)}
        self._storage.create(self._name(step), seal(record))
        return Checkpoint(step, sha256, facts)

    def newest(self) -> Checkpoint | None:
        """The checkpoint with the highest step; None before the first."""
        steps = self._steps()
        return self.at(steps[-1]) if steps else None

    def at(self, step: int) -> Checkpoint:
        """The checkpoint after `step` updates.

        Raises:
            FileNotFoundError: there is no such checkpoint.
            CorruptError: its record is damaged.
        """
        name = self._name(step)
        body = unseal(name, self._storage.read(name))
        check_shape(name, body, _CheckpointShape)
        return Checkpoint(body["step"], body["sha256"], body["facts"])

    def load(self, checkpoint: Checkpoint) -> dict[str, Tensor]:
        """The checkpoint's tensors, verified by their hash."""
        return load_file(self._storage.local(checkpoint.sha256))

    def has(self, step: int) -> bool:
        """Whether there is a checkpoint after `step` updates."""
        return self._storage.exists(self._name(step))

    def prune(self, kept: Collection[int], *, up_to: int) -> None:
        """Remove the checkpoints up to a step, except the newest ones and those in `kept`.

        Later ones are a successor's: a trainer that was paused knows nothing of their measurements.
        """
        for step in self._steps()[:-KEPT]:
            if step <= up_to and step not in kept:
                self._remove(step)

    def clear(self) -> None:
        """Remove all checkpoints, after the training's weights are published."""
        for step in self._steps():
            self._remove(step)

    def _remove(self, step: int) -> None:
        """Remove a checkpoint: first the record, then the blob that it names."""
        try:
            sha256 = self.at(step).sha256
        except FileNotFoundError:
            return  # another trainer has removed it since it was listed
        self._storage.delete(self._name(step))
        self._storage.delete(f"blobs/{sha256[:2]}/{sha256}")

    def _steps(self) -> list[int]:
        names = self._storage.names(f"{self._folder}/steps")
        return sorted(int(Path(name).stem) for name in names if name.endswith(".json"))

    def _name(self, step: int) -> str:
        return f"{self._folder}/steps/{step:07d}.json"


Measurement = dict[str, Any]
"""The step, the mean, and the values of the dev sets."""


class History:
    """The steps to be measured, and their known measurements."""

    def __init__(
        self, storage: Storage, folder: str, validate: Validate | None, num_steps: int
    ) -> None:
        """`folder` is STORE/FINGERPRINT; reads nothing yet."""
        self._storage, self._folder = storage, folder
        self._validate, self._num_steps = validate, num_steps
        self._known: dict[int, Measurement] = {}

    def due(self, step: int) -> list[int]:
        """The steps up to `step` that are to be measured: every n-th, and the last."""
        if self._validate is None:
            return []
        every, last = self._validate.every, self._num_steps
        steps = range(every, step + 1, every)
        return [*steps, last] if step == last and last % every else list(steps)

    def is_due(self, step: int) -> bool:
        """Whether this step is to be measured."""
        return step in self.due(step)[-1:]

    def lacks_start(self) -> bool:
        """Whether the start model is to be measured, and no record says so yet."""
        return self._validate is not None and self.start() is None

    def start(self) -> Measurement | None:
        """The measurement of the start model, before any update, as step 0.

        It never counts for the choice: a start model is no checkpoint.
        """
        return self._read(0)

    def add(self, step: int, values: list[float]) -> Measurement:
        """Record a step's measure on each dev set; returns an existing record instead."""
        body = {"step": step, "mean": sum(values) / len(values), "values": values}
        if not self._storage.create(self._name(step), seal(body)):
            body = unseal(self._name(step), self._storage.read(self._name(step)))
        return body

    def counted(self, step: int) -> list[Measurement]:
        """The measurements up to `step`, in order, that count for the choice.

        They end before the first missing one, and at the training's end by `patience`, whenever
        that was noticed.
        """
        measurements: list[Measurement] = []
        for due in self.due(step):
            measurement = self._read(due)
            if measurement is None or self._enough(measurements):
                break
            measurements.append(measurement)
        return measurements

    def missing(self, step: int) -> list[int]:
        """The steps up to `step` whose measurement is missing and could still count."""
        counted = self.counted(step)
        if self._enough(counted):
            return []
        return [due for due in self.due(step)[len(counted) :] if self._read(due) is None]

    def kept(self, step: int) -> set[int]:
        """Steps whose checkpoints are still needed: the best, and all that may become it."""
        counted = self.counted(step)
        best = self.best(counted)
        later = [] if self._enough(counted) else self.due(step)[len(counted) :]
        return {*later, *([] if best is None else [best["step"]])}

    def ended(self, step: int) -> bool:
        """Whether the last `patience` measurements were not better than an earlier one."""
        return self._enough(self.counted(step))

    def best(self, counted: list[Measurement]) -> Measurement | None:
        """The best of some measurements; the first of equals."""
        return best_of(counted, None if self._validate is None else self._validate.measure)

    def _enough(self, counted: list[Measurement]) -> bool:
        best = self.best(counted)
        if best is None or self._validate is None or self._validate.patience is None:
            return False
        return len(counted) - 1 - counted.index(best) >= self._validate.patience

    def _read(self, step: int) -> Measurement | None:
        if step not in self._known:
            name = self._name(step)
            try:
                measurement = unseal(name, self._storage.read(name))
            except FileNotFoundError:
                return None
            check_shape(name, measurement, _MeasurementShape)
            self._known[step] = measurement
        return self._known[step]

    def _name(self, step: int) -> str:
        return f"{self._folder}/measurements/{step:07d}.json"


class _MeasurementShape(Shape):
    step: Count
    mean: float
    values: list[float]


def history_of(job: Job) -> History:
    """The history of a training."""
    return History(job.storage, job.folder, job.recipe.validate_, steps_of(job.recipe))


def unmeasured(job: Job, steps: list[int]) -> InputError:
    """The error if a checkpoint can neither be measured nor left out of the choice."""
    return InputError(
        f"{job.store}: the checkpoints of {len(steps)} steps, first {steps[0]}, have neither been "
        "measured nor kept, so none can be chosen: something else removed them. Delete "
        f"{job.folder} in the stores to train again"
    )


def best_of(counted: Sequence[Measurement], measure: str | None = None) -> Measurement | None:
    """The best measurement: the highest, or the lowest loss; the first of equals."""
    sign = -1 if measure == MASKED_WORD_LOSS else 1
    return max(counted, key=lambda each: sign * each["mean"], default=None)


def measured_sets(recipe: Training) -> list[str]:
    """The names of the sets in a measurement's values: dev sets, or a pre-training's own sets."""
    return list(recipe.train if recipe.masking is not None else recipe.dev)


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


class _Line(Shape):
    step: Count


class _NoteLine(_Line):
    note: str


class _MeasurementLine(_Line):
    measure: str
    mean: float
    of: dict[str, float]


class _StepLine(_Line):
    loss: float
    rate: float
    gradient_norm: float
    tokens: Count = 0
    seconds: float = 0.0


def _shape_of(event: Mapping[str, Any]) -> type[Shape]:
    shapes: dict[str, type[Shape]] = {
        "note": _NoteLine,
        "mean": _MeasurementLine,
        "loss": _StepLine,
    }
    return next((shape for key, shape in shapes.items() if key in event), _Line)


def _name(job: Job) -> str:
    return f"{job.folder}/progress.jsonl"
