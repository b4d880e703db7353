"""Buckets name by name."""

import hashlib
import subprocess
import sys
import uuid

import fsspec
import pytest

from raypipe.errors import CorruptError, InputError
from raypipe.storage.bucket import BucketStorage


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    uri = f"memory://bucket-{uuid.uuid4().hex}/stores"
    yield BucketStorage(uri + "/")
    if fsspec.filesystem("memory").exists(uri):
        fsspec.filesystem("memory").rm(uri, recursive=True)


def sha256_of(data):
    return hashlib.sha256(data).hexdigest()


def test_names_of_a_bucket_are_read_replaced_listed_and_deleted(bucket):
    assert not bucket.uri.endswith("/") and bucket.free_bytes() is None
    for name, data in (("b/2", b"2"), ("a/1", b"1"), ("b/1", b"3")):
        bucket.replace(name, data)
    assert list(bucket.names("")) == ["a/1", "b/1", "b/2"] and list(bucket.names("b")) == [
        "b/1",
        "b/2",
    ]
    assert bucket.exists("a/1") and not bucket.exists("a/2")
    bucket.replace("a/1", b"new")
    assert bucket.read("a/1") == b"new"
    bucket.delete("a/1")
    assert (
        not bucket.exists("a/1") and not bucket.create("b/1", b"x") and bucket.create("a/1", b"x")
    )
    with pytest.raises(FileNotFoundError):
        bucket.read("a/9")
    for name in ("../x", "a//b", "", "/a"):
        with pytest.raises(InputError):
            bucket.create(name, b"")


def test_a_log_of_a_bucket_has_a_newline_a_line_and_only_new_ones_in_its_tail(bucket):
    for line in (b"a\n\n", b"b", b"c\n"):
        bucket.append("log.jsonl", line)
    assert bucket.read("log.jsonl") == b"a\nb\nc\n" and bucket.tail("none", 0) == (b"", 0)
    assert bucket.tail("log.jsonl", 0) == (b"a\nb\nc\n", 3)
    assert bucket.tail("log.jsonl", 1) == (b"b\nc\n", 3) and bucket.tail("log.jsonl", 5) == (b"", 5)


def test_a_blob_of_a_bucket_is_its_hash_or_refused(bucket, tmp_path):
    file = tmp_path / "x"
    file.write_bytes(b"rows")
    with pytest.raises(CorruptError, match="changed"):
        bucket.put(sha256_of(b"other"), file)
    assert file.exists() and not bucket.has(sha256_of(b"other"))
    bucket.put(sha256_of(b"rows"), file)
    assert bucket.has(sha256_of(b"rows")) and not file.exists()
    bucket.check(sha256_of(b"rows"))
    assert not list(tmp_path.glob("raypipe-check-*"))
    found = bucket.local(sha256_of(b"rows"))
    assert found.read_bytes() == b"rows" and found.parent.name == sha256_of(b"rows")[:2]
    with pytest.raises(CorruptError, match="found no object"):
        bucket.local(sha256_of(b"none"))
    assert not list(found.parent.parent.rglob("*.partial"))


def test_unfinished_files_of_a_bucket_are_local_and_those_of_the_dead_go(bucket, tmp_path):
    child = subprocess.run(
        [sys.executable, "-c", "from raypipe.storage.holder import process_label as p; print(p())"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    mine = bucket.scratch()
    assert mine.is_dir() and mine.is_relative_to(tmp_path) and list(mine.iterdir()) == []
    dead = mine.parent.parent / child.stdout.strip()
    (dead / "half").mkdir(parents=True)
    other = bucket.scratch()
    assert not dead.exists() and mine.exists() and other != mine


def test_an_owned_bucket_is_the_same_bucket(bucket):
    bucket.replace("a", b"1")
    assert bucket.owned("x").read("a") == b"1" and bucket.owned("x").uri == bucket.uri
