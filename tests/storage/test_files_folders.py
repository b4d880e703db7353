"""A folder that appears is whole, durable, and alone."""

import os

import pytest

from raypipe.storage.files import appear, folder_beside, replace_folder


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


def test_a_full_folder_is_replaced_as_a_whole(tmp_path):
    target = tmp_path / "out"
    for content, files in ((b"1", ["a", "b"]), (b"2", ["b", "c"])):
        with folder_beside(target) as folder:
            for name in files:
                (folder / name).write_bytes(content)
            replace_folder(folder, target)
        assert {p.name: p.read_bytes() for p in target.iterdir()} == dict.fromkeys(files, content)
        assert names(tmp_path) == ["out"]


def test_the_old_folder_stands_again_where_the_new_one_cannot_be_renamed(tmp_path, monkeypatch):
    target, rename = tmp_path / "out", os.rename
    target.mkdir()
    (target / "x").write_bytes(b"1")

    def failing(source, to):
        if (source / "new").exists():
            raise OSError(5, "Input/output error")
        rename(source, to)

    with pytest.raises(OSError, match="Input"), folder_beside(target) as folder:
        (folder / "new").write_bytes(b"2")
        monkeypatch.setattr(os, "rename", failing)
        replace_folder(folder, target)
    assert names(target) == ["x"] and names(tmp_path) == ["out"]
