"""The command `gc`: what it lists, deletes and leaves, and what it says of it."""

import errno
import hashlib
import json
import os
import shutil

import pytest

from raypipe.cli.main import run
from raypipe.driver.upkeep import gc as deleting
from raypipe.storage.posix import PosixStorage

PAYLOADS = [b"x" * 1200, b"y" * 30, b"zzzz"]
NAMES = sorted(f"blobs/{h[:2]}/{h}" for h in (hashlib.sha256(p).hexdigest() for p in PAYLOADS))


@pytest.fixture
def littered(work, tmp_path):
    """A copy of a workspace; three old payloads that nothing names, a young one, a strange file."""
    folder = shutil.copytree(work, tmp_path / "work")
    for payload in (*PAYLOADS, b"young"):
        sha256 = hashlib.sha256(payload).hexdigest()
        path = folder / "stores" / "blobs" / sha256[:2] / sha256
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(payload)
        if payload in PAYLOADS:
            os.utime(path, (1, 1))
    (folder / "stores" / "notes.txt").write_text("mine")
    return folder


def told(folder, capsys, *options):
    capsys.readouterr()
    code, _ = run(["gc", str(folder), *options])
    return code, capsys.readouterr().out


def left(folder):
    return [name for name in NAMES if (folder / "stores" / name).exists()]


def test_what_is_listed_is_deleted_only_if_asked(littered, capsys):
    lines = [*NAMES, "3 files, 1,234 bytes", "not part of a store, left alone: notes.txt"]
    for options, after in (([], NAMES), (["--yes"], [])):
        code, out = told(littered, capsys, *options)
        assert code == 0 and out.splitlines()[3:] == lines[3:]
        assert sorted(out.splitlines()[:3]) == NAMES and left(littered) == after
    assert told(littered, capsys)[1].splitlines() == ["0 files, 0 bytes", lines[-1]]


def test_one_object_says_what_was_found_and_what_was_deleted(littered, capsys):
    for options, deleted in (([], []), (["--yes"], NAMES)):
        code, out = told(littered, capsys, "--json", *options)
        found = json.loads(out)
        assert code == 0 and sorted(found.pop("names")) == NAMES
        assert sorted(found.pop("deleted")) == deleted
        assert found == {"bytes": 1234, "left": ["notes.txt"]}


def test_what_is_written_again_meanwhile_is_left_and_counted(littered, capsys, monkeypatch):
    find = deleting.find_garbage

    def found_before(workspace):
        garbage = find(workspace)
        os.utime(littered / "stores" / NAMES[0])
        return garbage

    monkeypatch.setattr(deleting, "find_garbage", found_before)
    code, out = told(littered, capsys, "--yes")
    assert (code, out.splitlines()[-1]) == (0, "left, since used again: 1")
    assert left(littered) == NAMES[:1]


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_where_storage_fails_what_was_listed_is_told_but_for_the_object(
    littered, capsys, monkeypatch, options
):
    delete = PosixStorage.delete

    def failing(storage, name):
        if name == NAMES[1]:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        delete(storage, name)

    monkeypatch.setattr(PosixStorage, "delete", failing)
    code, out = told(littered, capsys, "--yes", *options)
    said = [*NAMES, "some of them were deleted before storage failed"]
    assert (code, sorted(out.splitlines())) == (3, [] if options else said)
    assert NAMES[1] in left(littered)
