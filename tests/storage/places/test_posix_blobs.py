"""Blobs hold what their name says, and nobody writes to them by accident."""

import hashlib

import pytest

from raypipe.errors import CorruptError
from raypipe.storage.places.posix import PosixStorage


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
