"""Blobs hold what their name says, and nobody writes to them by accident."""

import hashlib
import os

import pytest

from raypipe.errors import CorruptError
from raypipe.storage.posix import PosixStorage


@pytest.mark.parametrize("inside", [True, False])
def test_a_file_that_is_not_what_its_hash_says_is_not_stored(tmp_path, inside):
    storage = PosixStorage(tmp_path / "stores")
    payload = (storage.scratch() if inside else tmp_path) / "payload"
    payload.write_bytes(b"rowz")
    sha256 = hashlib.sha256(b"rows").hexdigest()
    with pytest.raises(CorruptError, match="its bytes changed"):
        storage.put(sha256, payload)
    assert not storage.has(sha256)


def test_a_blob_is_read_only(tmp_path):
    storage = PosixStorage(tmp_path)
    payload = storage.scratch() / "payload"
    payload.write_bytes(b"rows")
    sha256 = hashlib.sha256(b"rows").hexdigest()
    storage.put(sha256, payload)
    assert storage.local(sha256).stat().st_mode & 0o777 == 0o444


def test_free_bytes_are_those_of_the_disk_even_before_the_folder_is_there(tmp_path):
    import shutil

    free = PosixStorage(tmp_path / "a" / "b").free_bytes()
    assert abs(free - shutil.disk_usage(tmp_path).free) < 1 << 33
    assert not (tmp_path / "a").exists()


def test_a_record_or_blob_stands_though_its_unfinished_file_cannot_be_removed(
    tmp_path, monkeypatch
):
    storage, file = PosixStorage(tmp_path / "stores"), tmp_path / "file"
    file.write_bytes(b"rows")
    sha256 = hashlib.sha256(b"rows").hexdigest()

    def failing(path, **options):
        raise OSError(5, "Input/output error", str(path))

    with monkeypatch.context() as patch:
        patch.setattr("os.unlink", failing)
        assert storage.create("a/record.json", b"1")
        storage.put(sha256, file)
    assert storage.read("a/record.json") == b"1" and storage.has(sha256)
    assert len([p for p in (tmp_path / "stores" / "tmp").rglob("*") if p.is_file()]) == 2
    storage.sweep()
    assert not any((tmp_path / "stores" / "tmp").iterdir())


def test_a_link_that_was_made_and_reported_as_failed_counts_as_made(tmp_path, monkeypatch):
    storage, link = PosixStorage(tmp_path), os.link

    def unanswered(source, target):
        link(source, target)
        raise OSError(5, "Input/output error")

    def failing(source, target):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "link", unanswered)
    assert storage.create("toy/record.json", b"1") and storage.read("toy/record.json") == b"1"
    monkeypatch.setattr(os, "link", failing)
    with pytest.raises(OSError, match="Input"):
        storage.create("toy/other.json", b"2")
    assert not storage.exists("toy/other.json")
