"""A pytest plugin: a bucket on this machine, and requests that go there while a test runs."""

import os
import uuid

import pytest


@pytest.fixture(scope="session")
def _bucket_server():
    from bucket_server import BucketServer
    from s3fs import S3FileSystem

    server = BucketServer()
    S3FileSystem.clear_instance_cache()  # its connections are kept from test to test
    yield server
    S3FileSystem.clear_instance_cache()
    server.stop()


@pytest.fixture
def bucket_server(_bucket_server, monkeypatch, tmp_path):
    """An S3 server on this machine, where requests go while the test runs."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in _bucket_server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # copies of blobs, in child processes too
    monkeypatch.setattr("tempfile.tempdir", None)
    _bucket_server.forget()
    yield _bucket_server
    _bucket_server.forget()


@pytest.fixture
def bucket_uri(bucket_server) -> str:
    """The URI of a new bucket there."""
    name = f"bucket-{uuid.uuid4().hex}"
    bucket_server.make(name)
    bucket_server.forget()
    return f"s3://{name}"
