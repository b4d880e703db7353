"""A node's copies of a bucket's blobs: verified at each use, fetched again where they are not."""

import hashlib
import uuid
from pathlib import Path

import fsspec
import pytest

from raypipe.errors import CorruptError
from raypipe.storage.bucket import BucketStorage
from raypipe.storage.holder import process_label

DATA = b"payload"
SHA256 = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    uri = f"memory://bucket-{uuid.uuid4().hex}/stores"
    storage = BucketStorage(uri)
    (tmp_path / "file").write_bytes(DATA)
    storage.put(SHA256, tmp_path / "file")
    yield storage
    fsspec.filesystem("memory").rm(uri, recursive=True)


@pytest.mark.parametrize("damaged", [b"payloac", b"payloadx", b""])
def test_a_damaged_copy_is_fetched_again(bucket, damaged):
    copy = bucket.local(SHA256)
    copy.write_bytes(damaged)
    assert bucket.local(SHA256).read_bytes() == DATA
    copy.write_bytes(damaged)
    assert BucketStorage(bucket.uri).local(SHA256).read_bytes() == DATA


def test_a_damaged_blob_is_refused_where_no_sound_copy_of_it_stands(bucket):
    copy = bucket.local(SHA256)
    key = next(name for name in bucket.names("") if name.endswith(SHA256))
    bucket.replace(key, b"damaged")
    assert bucket.local(SHA256).read_bytes() == DATA
    for act in (bucket.check, bucket.local):
        with pytest.raises(CorruptError, match=SHA256):
            act(SHA256)
        copy.write_bytes(b"payloac")
    copy.unlink()
    with pytest.raises(CorruptError, match=SHA256):
        bucket.local(SHA256)


def test_the_scratch_of_another_host_stays_beside_this_nodes(bucket):
    own = bucket.scratch()
    kind, pid, start, place = process_label().split("-")
    root = own.parent.parent
    names = [f"{kind}-999999999-{start}-{'0' * len(place)}", f"{kind}-999999999-{start}-{place}"]
    for name in names:
        (root / name).mkdir()
    bucket.scratch()
    assert own.is_dir() and (root / names[0]).is_dir()
    assert not Path(root / names[1]).exists(), "its process ended, provably"


def test_a_blob_is_looked_for_past_the_listings_that_a_file_system_keeps(bucket, monkeypatch):
    asked = []
    monkeypatch.setattr(bucket._fs, "invalidate_cache", lambda *paths: asked.append("forgotten"))
    monkeypatch.setattr(bucket._fs, "exists", lambda path: bool(asked.append("looked")) or True)
    assert bucket.has(SHA256)
    assert asked == ["forgotten", "looked"]
