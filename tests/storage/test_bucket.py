"""A bucket's storage over fsspec's file system in memory, which also refuses to create twice."""

import hashlib
import uuid

import fsspec
import pytest

from raypipe.errors import CorruptError
from raypipe.storage.bucket import BucketStorage


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    uri = f"memory://bucket-{uuid.uuid4().hex}/stores"
    yield BucketStorage(uri)
    fsspec.filesystem("memory").rm(uri, recursive=True)


def test_a_name_is_created_once(bucket):
    assert bucket.create("a/1.json", b"first")
    assert not bucket.create("a/1.json", b"second")
    assert bucket.read("a/1.json") == b"first"
    assert list(bucket.names("a")) == ["a/1.json"]


def test_the_tail_of_a_log_is_its_lines_since_the_last_look(bucket):
    assert bucket.tail("log.jsonl", 0) == (b"", 0)
    bucket.append("log.jsonl", b"a")
    bucket.append("log.jsonl", b"b\n")
    assert bucket.tail("log.jsonl", 0) == (b"a\nb\n", 2)
    assert bucket.tail("log.jsonl", 2) == (b"", 2)
    bucket.append("log.jsonl", b"c")
    assert bucket.tail("log.jsonl", 2) == (b"c\n", 3)
    assert bucket.read("log.jsonl") == b"a\nb\nc\n"


def test_a_blob_is_fetched_once_and_a_damaged_one_refused(bucket, tmp_path):
    data = b"payload"
    sha256 = hashlib.sha256(data).hexdigest()
    (tmp_path / "file").write_bytes(data)
    bucket.put(sha256, tmp_path / "file")
    assert bucket.has(sha256) and not (tmp_path / "file").exists()
    local = bucket.local(sha256)
    assert local.read_bytes() == data
    key = next(name for name in bucket.names("") if name.endswith(sha256))
    bucket.replace(key, b"damaged")
    assert bucket.local(sha256).read_bytes() == data  # the copy of this node is sound
    with pytest.raises(CorruptError, match=sha256[:12]):
        bucket.check(sha256)
    local.unlink()
    with pytest.raises(CorruptError):
        bucket.local(sha256)
