"""A checkpoint that was saved is there when the machine is switched on again."""

import pytest
import torch
from lost_power import noting_disk

from raypipe.storage.posix import PosixStorage
from raypipe.training.checkpoints import Checkpoints


@pytest.mark.fault(7, "after each of 3 saves the checkpoint survives, every byte of it")
def test_saved_checkpoints_survive(tmp_path, monkeypatch):
    disk = noting_disk(tmp_path / "disk", monkeypatch)
    found = Checkpoints(PosixStorage(disk.root / "stores"), "train/f")
    for step in (1, 2, 3):
        found.save(step, {"w": torch.full((1000,), float(step))}, {})
        left = disk.survivors(tmp_path / f"after-{step}") / "stores"
        after = Checkpoints(PosixStorage(left), "train/f")
        assert after.newest().step == step
        assert after.load(after.newest())["w"].tolist() == [float(step)] * 1000
