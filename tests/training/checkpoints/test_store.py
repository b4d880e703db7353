import os
import shutil

import pytest
import torch
from lost_power import noting_disk

from raypipe.errors import CorruptError
from raypipe.storage.posix import PosixStorage
from raypipe.training.checkpoints import Checkpoints


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


def test_trainings_and_steps_with_one_state_share_no_blob(tmp_path):
    storage = PosixStorage(tmp_path)
    state = {"w": torch.zeros(2)}
    one, other = Checkpoints(storage, "train/f"), Checkpoints(storage, "train/g")
    kept = [one.save(1, state, {}), one.save(2, state, {}), other.save(1, state, {})]
    assert len({each.sha256 for each in kept}) == 3
    one.clear()
    assert other.load(other.at(1))["w"].tolist() == [0.0, 0.0]


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


CALLS = ("write", "fsync", "link", "unlink", "replace", "chmod")


def ending_at(number, count, real):
    def call(*given, **named):
        count[0] += 1
        if count[0] == number:
            os._exit(9)
        return real(*given, **named)

    return call


def save_until(folder, number):
    """The third checkpoint is saved in a child that ends at its n-th file system call; its code."""
    pid = os.fork()
    if pid == 0:
        found, count = Checkpoints(PosixStorage(folder), "train/f"), [0]
        for name in CALLS:
            setattr(os, name, ending_at(number, count, getattr(os, name)))
        found.save(3, {"w": torch.full((2,), 3.0)}, {})
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.fault(44, "ended at each file system call of a save: the newest one loads whole")
def test_a_trainer_killed_at_any_call_of_a_save_leaves_the_newest_checkpoint_whole(tmp_path):
    saved(PosixStorage(tmp_path / "before"), 1, 2)
    newest, code, number = [], 9, 0
    while code == 9:
        number += 1
        folder = shutil.copytree(tmp_path / "before", tmp_path / str(number))
        code = save_until(folder, number)
        found = Checkpoints(PosixStorage(folder), "train/f")
        assert found.load(found.newest())["w"].tolist() == [found.newest().step] * 2
        newest.append(found.newest().step)
        again = found.save(3, {"w": torch.full((2,), 3.0)}, {})
        assert found.load(again)["w"].tolist() == [3.0, 3.0]
    assert code == 0 and number > 6 and newest == sorted(newest) and {2, 3} == set(newest)


@pytest.mark.fault(44, "weights that lost a byte or changed one are refused by their hash")
@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: b"x" + data[1:]])
def test_damaged_weights_are_no_checkpoint(tmp_path, damage):
    newest = saved(PosixStorage(tmp_path), 1, 2).newest()
    path = tmp_path / "blobs" / newest.sha256[:2] / newest.sha256
    path.chmod(0o644)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CorruptError, match=newest.sha256):
        Checkpoints(PosixStorage(tmp_path), "train/f").load(newest)


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
