"""An S3 server on this machine, which counts requests and fails where it is told to.

The server is moto's. It looks whether a key exists and then stores it, in two steps, and closes an
object's bytes under whoever still reads them: of writers that race with `If-None-Match: *` several
may win, and some get an error of the server's own (shown by four threads with a short switch
interval). S3 itself promises that one wins. So requests are answered one at a time here; those who
ask still race, request by request.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

import boto3
from moto.server import ThreadedMotoServer

KEYS = {
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/nonexistent",
    "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
}


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked: a method, and a key or what a listing begins with."""

    method: str
    key: str
    listing: bool


Fault = Callable[[Request], "tuple[int, str, bool] | None"]
"""Status and code to answer instead, and whether the request is carried out all the same."""
Damage = Callable[[Request, bytes], bytes]
"""An object's bytes, as long as they were, in place of those that were read."""


class BucketServer:
    """The server, its address and what it was asked."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.fault: Fault = lambda request: None
        self.damage: Damage = lambda request, body: body
        self._client: Any = None
        self._lock = threading.Lock()
        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._server.start()
        http = self._server._server
        assert http is not None
        http.RequestHandlerClass.log_request = lambda *arguments, **settings: None  # type: ignore
        self._answer, http.app = http.app, self._one_at_a_time
        host, port = self._server.get_host_and_port()
        self.environment = {**KEYS, "AWS_ENDPOINT_URL": f"http://{host}:{port}"}

    def stop(self) -> None:
        self._server.stop()

    def forget(self) -> None:
        """Count from here, and fail and damage no more."""
        self.requests.clear()
        self.fault = lambda request: None
        self.damage = lambda request, body: body

    def counts(self) -> dict[str, int]:
        """Requests since `forget`, by kind."""
        kinds = ("LIST" if one.listing else one.method for one in list(self.requests))
        return dict(Counter(kinds))

    def make(self, bucket: str) -> None:
        """Create a bucket."""
        if self._client is None:
            self._client = self.client()
        self._client.create_bucket(Bucket=bucket)

    def client(self) -> Any:
        """A client of its own, which tries nothing twice."""
        return boto3.session.Session().client(
            "s3",
            endpoint_url=self.environment["AWS_ENDPOINT_URL"],
            region_name="us-east-1",
            aws_access_key_id="key",
            aws_secret_access_key="secret",
        )

    def _read(self, request: Request, environ: dict, start_response: Callable) -> bytes:
        """The answer's body, as `damage` leaves what was read from an object."""
        told: list[Any] = []
        body = b"".join(self._answer(environ, lambda *given: told.extend(given[:2])))
        if request.method == "GET" and not request.listing and told[0].startswith("20"):
            body = self.damage(request, body)
            # As of an object that was written without one: not every tool writes a checksum.
            told[1] = [each for each in told[1] if "checksum" not in each[0].lower()]
        start_response(*told)
        return body

    def _one_at_a_time(self, environ: dict, start_response: Callable) -> Iterable[bytes]:
        _, _, key = environ["PATH_INFO"].lstrip("/").partition("/")
        query = parse_qs(environ.get("QUERY_STRING", ""))
        request = Request(environ["REQUEST_METHOD"], key or query.get("prefix", [""])[0], not key)
        with self._lock:
            self.requests.append(request)
            failing = self.fault(request)
            if failing is None:
                return [self._read(request, environ, start_response)]
            status, code, carried_out = failing
            if carried_out:
                list(self._answer(environ, lambda *given: None))
            else:
                environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        body = f"<Error><Code>{code}</Code><Message>told {code}</Message></Error>".encode()
        start_response(f"{status} {code}", [("content-length", str(len(body)))])
        return [body if request.method != "HEAD" else b""]
