"""Checkpoints of a training; a checkpoint exists once its record exists.

Saving takes two steps, like everything durable here: a payload under its SHA-256, then the
exclusive creation of a small record that names it. A file left by a killed worker is never used.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import Tensor

from raypipe.shapes import Count, Place, Shape, check_shape
from raypipe.storage.ledger import work_label
from raypipe.storage.payloads import writing
from raypipe.storage.records import Json, hash_file, seal, unseal
from raypipe.storage.storage import Storage

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
