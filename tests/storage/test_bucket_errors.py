"""A bucket that is missing, closed or silent: the user's to mend, or storage that failed."""

import errno
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from raypipe.errors import CorruptError, InputError, StorageError, ending_of
from raypipe.storage.bucket import BucketStorage
from raypipe.storage.copies import bucket_errors

s3fs = pytest.importorskip("s3fs")
exceptions = pytest.importorskip("botocore.exceptions")

URI = "s3://nobody-has-this/stores"
ACTS = {
    "create": lambda bucket: bucket.create("a/x.json", b"{}"),
    "replace": lambda bucket: bucket.replace("a/x.json", b"{}"),
    "append": lambda bucket: bucket.append("a/x.jsonl", b"{}"),
    "read": lambda bucket: bucket.read("a/x.json"),
    "names": lambda bucket: list(bucket.names("")),
    "has": lambda bucket: bucket.has("ab" * 32),
}


class Answer(BaseHTTPRequestHandler):
    """Answers every request with the server's status and code."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        status, code = self.server.answer
        self.rfile.read(int(self.headers.get("content-length") or 0))
        body = f"<Error><Code>{code}</Code><Message>told {code}</Message></Error>".encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_PUT = do_POST = do_GET

    def log_message(self, *arguments):
        pass


@pytest.fixture
def service(monkeypatch):
    """A service on this machine to which the bucket's requests go."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    given = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": "/nonexistent",
        "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    yield server
    s3fs.S3FileSystem.clear_instance_cache()
    server.shutdown()
    server.server_close()


def refused(told, *acts):
    for act in acts:
        with pytest.raises(InputError, match=rf"stores: {URI}: {told}"):
            ACTS[act](BucketStorage(URI))


def test_a_missing_bucket_is_named_with_what_to_do(service):
    service.answer = (404, "NoSuchBucket")
    refused("told NoSuchBucket.*create it", *sorted({*ACTS} - {"has"}))


def test_a_bucket_without_permission_asks_for_credentials(service):
    service.answer = (403, "AccessDenied")
    refused(".*expected credentials", *ACTS)


def test_without_credentials_the_bucket_asks_for_them(service, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    refused(".*AWS_ACCESS_KEY_ID", *ACTS)


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (exceptions.EndpointConnectionError(endpoint_url="http://down"), StorageError, 3),
        (exceptions.ReadTimeoutError(endpoint_url="http://slow"), StorageError, 3),
        (exceptions.ClientError({"Error": {"Code": "Odd"}}, "PutObject"), StorageError, 3),
        (OSError(errno.EBUSY, "SlowDown"), StorageError, 3),
        (TimeoutError("no answer"), StorageError, 3),
        (exceptions.NoCredentialsError(), InputError, 2),
        (exceptions.PartialCredentialsError(provider="env", cred_var="x"), InputError, 2),
        (exceptions.ProfileNotFound(profile="p"), InputError, 2),
        (exceptions.ParamValidationError(report="no such name"), InputError, 2),
        (exceptions.NoRegionError(), InputError, 2),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_what_a_library_raises_is_a_wrong_setting_or_storage_that_failed(error, kind, code):
    with pytest.raises(kind, match=f"stores: {URI}: ") as raised, bucket_errors(URI):
        raise error
    assert raised.value.__cause__ is error and ending_of(raised.value).exit_code == code


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError("no such key"),
        FileExistsError("there"),
        CorruptError("damaged"),
        OSError(errno.ENOSPC, "full", "/tmp/copy"),
        KeyError("a bug"),
    ],
    ids=repr,
)
def test_errors_with_a_meaning_of_their_own_pass(error):
    with pytest.raises(type(error)) as raised, bucket_errors(URI):
        raise error
    assert raised.value is error


def test_a_write_that_finds_nothing_misses_the_bucket():
    with pytest.raises(InputError, match="a bucket that exists"), bucket_errors(URI, writes=True):
        raise FileNotFoundError("gs://nobody")
