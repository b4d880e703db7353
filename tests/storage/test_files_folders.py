"""A folder that appears is whole, durable, and alone."""

import os

import pytest

from raypipe.storage.files import appear, folder_beside


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_target_appears_with_all_its_files_and_nothing_stays_beside_it(tmp_path):
    target = tmp_path / "deep" / "out"
    with folder_beside(target) as folder:
        assert folder.parent == target.parent and folder.name.startswith(".out.")
        (folder / "a").mkdir()
        (folder / "a" / "x").write_bytes(b"1")
        assert not target.exists()
        appear(folder, target)
    assert (target / "a" / "x").read_bytes() == b"1" and names(target.parent) == ["out"]


def test_an_empty_folder_is_replaced_and_a_full_one_is_kept(tmp_path):
    target = tmp_path / "out"
    target.mkdir()
    with folder_beside(target) as folder:
        (folder / "x").write_bytes(b"1")
        appear(folder, target)
    with pytest.raises(OSError), folder_beside(target) as folder:
        (folder / "x").write_bytes(b"2")
        appear(folder, target)
    assert (target / "x").read_bytes() == b"1" and names(tmp_path) == ["out"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_error_leaves_nothing(tmp_path, error):
    with pytest.raises(error), folder_beside(tmp_path / "out") as folder:
        (folder / "x").write_bytes(b"1")
        raise error
    assert names(tmp_path) == []


def test_files_are_durable_before_the_name_and_the_name_after(tmp_path, monkeypatch):
    calls, fsync, rename = [], os.fsync, os.rename

    def noted_fsync(descriptor):
        calls.append(os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    def noted_rename(source, target):
        calls.append("rename")
        rename(source, target)

    with folder_beside(tmp_path / "out") as folder:
        (folder / "a").mkdir()
        (folder / "a" / "x").write_bytes(b"1")
        monkeypatch.setattr(os, "fsync", noted_fsync)
        monkeypatch.setattr(os, "rename", noted_rename)
        appear(folder, tmp_path / "out")
        name = folder.name
    assert sorted(calls[:2]) == ["a", "x"] and calls[2:] == [name, "rename", tmp_path.name]
