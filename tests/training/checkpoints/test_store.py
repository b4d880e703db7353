import pytest
import torch

from raypipe.storage.places.posix import PosixStorage
from raypipe.training.checkpoints.store import Checkpoints


def test_only_the_newest_two_checkpoints_and_those_kept_stay(tmp_path):
    storage = PosixStorage(tmp_path)
    found = Checkpoints(storage, "train/f")
    assert found.newest() is None and not found.has(1)
    for step in (1, 2, 3, 10):
        saved = found.save(step, {"w": torch.full((2,), float(step))}, {"device": "cpu"})
        assert saved == found.at(step)
    assert found.newest().step == 10 and found.at(2).facts == {"device": "cpu"}
    assert found.load(found.at(3))["w"].tolist() == [3.0, 3.0]
    gone = found.at(1).sha256
    found.prune({2}, up_to=10)
    assert [step for step in range(11) if found.has(step)] == [2, 3, 10]
    assert not storage.has(gone) and storage.has(found.at(2).sha256)
    found.clear()
    assert found.newest() is None
    assert [n for n in storage.names("") if n.startswith(("blobs/", "train/"))] == []


def saved(storage, *steps):
    found = Checkpoints(storage, "train/f")
    for step in steps:
        found.save(step, {"w": torch.full((2,), float(step))}, {})
    return found


@pytest.mark.fault(44, "a trainer that was paused removes 0 of its successor's 4 checkpoints")
def test_a_trainer_that_was_paused_removes_nothing_of_its_successors(tmp_path):
    storage = PosixStorage(tmp_path)
    paused = saved(storage, 10, 20)
    successor = saved(storage, 30, 40, 50, 60)
    paused.prune({10}, up_to=20)  # its own view: 10 is the best
    assert [step for step in range(61) if successor.has(step)] == [10, 30, 40, 50, 60]
    for step in (30, 40, 50, 60):
        assert successor.load(successor.at(step))["w"][0] == step


def test_a_checkpoint_that_another_removed_meanwhile_is_passed_over(tmp_path, monkeypatch):
    storage = PosixStorage(tmp_path)
    found = saved(storage, 1, 2, 3, 4)
    names = list(storage.names("train/f/steps"))
    monkeypatch.setattr(PosixStorage, "names", lambda storage, prefix: iter(names))
    saved(storage).prune(set(), up_to=4)
    found.prune(set(), up_to=4)
    assert [step for step in range(5) if found.has(step)] == [3, 4]
