"""A file that takes another's place is whole, durable, and alone."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from raypipe import schema
from raypipe.errors import ending_of
from raypipe.storage.files import appearing, folder_beside, replace_file, replacing, sync
from raypipe.storage.payloads import write_table
from raypipe.storage.posix import PosixStorage
from raypipe.storage.records import hash_file


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_old_file_stands_until_the_block_ends(tmp_path):
    path = tmp_path / "deep" / "x.tsv"
    for content in (b"one", b"two"):
        with replacing(path) as file:
            file.write(content)
            assert not path.exists() or path.read_bytes() == b"one"
        assert path.read_bytes() == content and names(path.parent) == ["x.tsv"]


@pytest.mark.parametrize("data", [b"one", b""])
def test_an_open_pipe_is_written_to(data):
    reads, writes = os.pipe()
    replace_file(Path(f"/dev/fd/{writes}"), data)
    os.close(writes)
    with open(reads, "rb") as stream:
        assert stream.read() == data


def test_a_link_to_standard_output_is_written_to_and_stays_a_link(tmp_path):
    code = "from raypipe.storage.files import replace_file as r; from pathlib import Path as P;"
    code += "print('a', flush=True); r(P('/dev/fd/1'), b'b\\n'); print('c')"
    with (tmp_path / "log").open("ab") as log:
        subprocess.run([sys.executable, "-c", code], stdout=log, check=True)
    assert (tmp_path / "log").read_bytes() == b"a\nb\nc\n"


@pytest.mark.fault(8, "a write that fails leaves the old file and nothing beside it")
def test_an_error_leaves_the_old_file_and_nothing_beside_it(tmp_path):
    path = tmp_path / "x.tsv"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError), replacing(path) as file:
        file.write(b"half")
        raise RuntimeError
    assert path.read_bytes() == b"old" and names(tmp_path) == ["x.tsv"]


def test_a_full_disk_is_told_with_the_file_that_was_written(tmp_path):
    with pytest.raises(OSError) as told, replacing(tmp_path / "x.tsv"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert told.value.filename == str(tmp_path / "x.tsv")


def test_bytes_are_durable_before_the_name_and_the_name_after(tmp_path, monkeypatch):
    path, calls = tmp_path / "x.tsv", []
    fsync, replace = os.fsync, os.replace

    def noted_fsync(descriptor):
        calls.append(("fsync", os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))))
        fsync(descriptor)

    def noted_replace(source, target):
        calls.append(("replace", os.path.basename(source)))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", noted_replace)
    with replacing(path) as file:
        file.write(b"one")
    beside = calls[0][1]
    assert calls == [("fsync", beside), ("replace", beside), ("fsync", tmp_path.name)]


def test_a_file_of_the_same_bytes_is_left_untouched(tmp_path):
    path = tmp_path / "a" / "x.json"
    replace_file(path, b"1")
    before = path.stat()
    replace_file(path, b"1")
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    replace_file(path, b"2")
    assert path.read_bytes() == b"2" and names(path.parent) == ["x.json"]


def test_every_write_to_a_full_disk_names_its_file_and_the_remedy(tmp_path, monkeypatch):
    storage, given = PosixStorage(tmp_path / "stores"), tmp_path / "given"
    given.write_bytes(b"x")
    storage.create("there", b"x")

    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for name in ("fsync", "write"):
        monkeypatch.setattr(os, name, full)
    monkeypatch.setattr(shutil, "copyfile", full)

    def filled():
        with folder_beside(tmp_path / "export") as folder, Path(folder / "x").open("wb") as file:
            os.write(file.fileno(), b"x")

    def appeared():
        with appearing(tmp_path / "values.tsv") as file:
            os.write(file.fileno(), b"x")

    writes = {
        "/values.tsv": appeared,
        "/export": filled,
        "/stores/tmp/": lambda: storage.create("a", b"x"),
        "/stores/tmp/process": lambda: storage.replace("a", b"x"),
        "/stores/log": lambda: storage.append("log", b"x"),
        "/stores/tmp/p": lambda: storage.put(hash_file(given), given),
        "/given": lambda: sync(given),
        "/dev/full": lambda: write_table(Path("/dev/full"), schema.PASSAGES, [ROWS]),
    }
    for place, write in writes.items():
        with pytest.raises(OSError) as told:
            write()
        code, reason = ending_of(told.value)
        assert code == 3 and place in reason and "free space there" in reason
    assert not (tmp_path / "values.tsv").exists()


ROWS = pa.table([["a"], ["b"]], schema=schema.PASSAGES)
