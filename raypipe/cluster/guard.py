"""Who may reach a Ray cluster: loopback alone, or only those who know its token."""

import os
import secrets
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from urllib.error import HTTPError

from ray._private import ray_constants

ASK_SECONDS = 5.0
ASK_CHILD_SECONDS = 30.0
"""A child process imports Ray first."""
_ASK = """
import sys
from ray._raylet import GcsClient
from ray.exceptions import AuthenticationError
try:
    GcsClient(address=sys.argv[1]).internal_kv_exists(b"raypipe", None, timeout=5)
except AuthenticationError:
    sys.exit(3)
"""
_REFUSED = 3


def open_cluster_problem(address: str, hosts: Sequence[str]) -> str | None:
    """Why a cluster without token authentication is refused; None if only loopback reaches it.

    Source: CVE-2023-48022; whoever reaches an open Ray cluster can run code on it.
    """
    reachable = [host for host in hosts if not _is_loopback(host)]
    if not reachable:
        return None
    return (
        f"the Ray cluster at {address} listens on {', '.join(reachable)} and requires no token: "
        "whoever reaches it can run code. Run `ray get-auth-token --generate`, export "
        "RAY_AUTH_MODE=token, start it again, or pass --allow-open-cluster"
    )


def asks_for_token(dashboard: str, gcs: str) -> bool:
    """Whether a cluster refuses requests without a token; False if it cannot be found out.

    What is set in this process says nothing about the cluster, so the cluster is asked: its
    dashboard, or where that does not answer (it listens on the head's loopback, or there is none)
    its control service.

    Args:
        dashboard: address of the dashboard; may be empty.
        gcs: address of the control service.
    """
    status = _status_without_token(dashboard)
    return _refuses_strangers(gcs) if status is None else status in (401, 403)


@contextmanager
def loopback_only() -> Iterator[dict[str, str]]:
    """The options of `ray.init` with which its daemons and workers listen on 127.0.0.1 alone.

    Ray does that by itself on macOS and Windows. On Linux it asks for another address of this
    machine and listens on all of them, unless its own switch says otherwise.
    """
    variable = ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR
    switch, given = ray_constants.ENABLE_RAY_CLUSTER, os.environ.get(variable)
    ray_constants.ENABLE_RAY_CLUSTER, os.environ[variable] = False, "0"  # here; in its daemons
    try:
        yield {"_node_ip_address": "127.0.0.1"}
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = switch
        if given is None:
            del os.environ[variable]
        else:
            os.environ[variable] = given


def keep_token_private(*, create: bool) -> None:
    """Let nobody else read the token in ~/.ray/auth_token, which Ray writes for all to read.

    `create`: make it first if there is none, as Ray would do when it starts.
    """
    path = Path.home() / ".ray" / "auth_token"
    if create and not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(32))
        with suppress(FileExistsError):  # another process was faster
            os.link(beside, path)
        beside.unlink()
    with suppress(FileNotFoundError):
        found = path.stat()
        if found.st_uid == os.getuid() and found.st_mode & 0o077:
            path.chmod(0o600)


def _refuses_strangers(gcs: str) -> bool:
    """Whether the control service refuses a client without a token.

    Ray reads the mode once in a process, so that the client is another process.
    """
    variables = {k: v for k, v in os.environ.items() if not k.startswith("RAY_AUTH_")}
    variables["RAY_AUTH_MODE"] = "disabled"
    try:
        asked = subprocess.run(
            [sys.executable, "-c", _ASK, gcs],
            env=variables,
            capture_output=True,
            timeout=ASK_CHILD_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return False
    return asked.returncode == _REFUSED


def _status_without_token(dashboard: str) -> int | None:
    """HTTP status of the cluster's job list for a request without a token; None if no answer."""
    if not dashboard:
        return None
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(f"http://{dashboard}/api/jobs/", timeout=ASK_SECONDS) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code
    except OSError:
        return None


def _is_loopback(host: str) -> bool:
    return host == "localhost" or ip_address(host).is_loopback
