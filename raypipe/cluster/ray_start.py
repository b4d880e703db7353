"""Starts Ray on this machine or joins an existing cluster; no usage data are sent anywhere.

Loopback alone may reach a cluster, or only those who know its token.
"""

import ctypes
import errno
import json
import logging
import os
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any, TypeVar
from urllib.error import HTTPError

import psutil
import ray
from ray._private import ray_constants
from ray.job_config import JobConfig

from raypipe import numerics
from raypipe.cluster.ray_daemons import fewer_daemons
from raypipe.cluster.reaper import Reaper
from raypipe.errors import IncompleteError, InputError, RaypipeError, RefusedError, first_line
from raypipe.isolation import child_environment, safe_variables
from raypipe.package import FOLDER

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

    This process's own settings say nothing about the cluster, so the cluster is asked: its
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

    Raises:
        InputError: HOME is no folder in which that can be.
    """
    path = Path.home() / ".ray" / "auth_token"
    try:
        _keep_private(path, create)
    except OSError as error:
        if error.errno in _DISK:
            raise
        raise InputError(
            f"HOME={Path.home()}: expected a folder in which Ray can keep its token, {path}; "
            f"found: {error.strerror}. Set HOME to a folder that you can write to, or work without "
            "Ray: resources.backend=inline"
        ) from error


_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
"""Errors of a disk, which may be over when the same command runs again."""


def _keep_private(path: Path, create: bool) -> None:
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
    inherited = child_environment().items()
    variables = {name: value for name, value in inherited if not name.startswith("RAY_AUTH_")}
    variables["RAY_AUTH_MODE"] = "disabled"
    try:
        child = subprocess.run(
            [sys.executable, "-P", "-c", _ASK, gcs],
            env=variables,
            capture_output=True,
            timeout=ASK_CHILD_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return False
    return child.returncode == _REFUSED


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


Answer = TypeVar("Answer")
JOIN_SECONDS = 60.0
OBJECT_STORE_BYTES = 200 << 20  # only shard numbers and paths pass through it, never rows

ENVIRONMENT = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",  # a worker without GPUs must not see any
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "10",  # notice a dead head soon; reruns are cheap
}
OF_CLIENT = {
    **ENVIRONMENT,
    "RAY_gcs_rpc_server_reconnect_timeout_s": "600",
    "RAY_OVERRIDE_JOB_RUNTIME_ENV": "1",
}
"""A client of Ray ends its process with exit code 1 so many seconds after its head. The driver of a
joined cluster looks for the head itself, and ends before that with its own code. The last one lets
`_of_joined` extend the modules that a job was submitted with."""
HEAD_FAILURES = 5
"""So many failures to reach a cluster's head, a second apart, mean that it has ended."""


class LocalRay:
    """The daemons of a cluster that only this process uses, and its reaper."""

    def __init__(self, reaper: Reaper, environment: Mapping[str, str]) -> None:
        """Ray must have been started by this process, with `environment` set."""
        self._reaper = reaper
        self.environment = dict(environment)
        """The environment that every worker process inherits. An actor that needs nothing else gets
        a process that Ray keeps ready.
        """
        below = psutil.Process().children()
        names = ("gcs_server", "raylet")
        self._daemons: dict[psutil.Process, str] = {p: p.name() for p in below if p.name() in names}

    def ended(self) -> bool:
        """Whether a daemon has ended; Ray's own calls may then hang."""
        return self._missing() is not None

    def check(self) -> None:
        """Returns nothing while every daemon runs.

        Raises:
            IncompleteError: one has ended; the message names it.
        """
        name = self._missing()
        if name is not None:
            raise IncompleteError(
                f"Ray's {name} on this machine has ended; committed work is kept, and the same "
                "command resumes"
            )

    def close(self) -> None:
        """Disconnect, and end every remaining process."""
        if self._missing() is None:  # otherwise Ray would wait for what has ended
            with java_keeps_its_signals():
                ray.shutdown()  # a client ends its process ten seconds after its head
        self._reaper.close()

    def _missing(self) -> str | None:
        for process, name in self._daemons.items():
            if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
                return name
        return None


class JoinedRay:
    """A cluster that was joined, and whether its head still answers; Ray's own calls may hang."""

    def __init__(self) -> None:
        """This process must have joined it."""
        self._head: str = ray.get_runtime_context().gcs_address
        self._failures = 0
        self._asked = time.monotonic()

    def ended(self) -> bool:
        """Whether the head has ended, as far as `check` knows."""
        return self._failures >= HEAD_FAILURES

    def check(self) -> None:
        """Returns nothing while the head answers, or has not been silent for long.

        Raises:
            IncompleteError: it has ended.
        """
        if not self.ended() and time.monotonic() - self._asked >= 1.0:
            self._asked = time.monotonic()
            host, _, port = self._head.rpartition(":")
            try:
                socket.create_connection((host.strip("[]"), int(port)), timeout=1.0).close()
                self._failures = 0
            except OSError:
                self._failures += 1
        if self.ended():
            raise IncompleteError(
                f"the head of the Ray cluster at {self._head} has ended; committed work is kept, "
                "and the same command resumes, on a new cluster too"
            )


def answer_of(call: Callable[[], Answer], check: Callable[[], None]) -> Answer:
    """The result of a call of Ray, or its error, unless `check` raises first.

    Where the head has ended, Ray may wait for a minute and then end the whole process. So it waits
    in a thread that may be abandoned.
    """
    done: Future[Answer] = Future()

    def run() -> None:
        try:
            done.set_result(call())
        except BaseException as error:  # raised by the waiting thread
            done.set_exception(error)

    threading.Thread(target=run, name="call of Ray", daemon=True).start()
    while not wait([done], timeout=1.0).done:
        check()
    return done.result()


def start_local(*, num_cpus: int, num_gpus: int = 0, threads: int = 1) -> LocalRay:
    """A cluster that only this process uses, whatever RAY_ADDRESS says; it ends with the process.

    Its workers inherit their environment, including `threads`: if Ray had to set it, Ray would
    discard the processes that it keeps ready and start a new one for each actor.

    Raises:
        InputError: this process has a Ray already, or HOME or the temporary folder does not suit.
        IncompleteError: Ray does not start, for example on a machine that is too busy.
    """
    _refuse_second()
    _check_temporary_folder()
    keep_token_private(create=True)
    reaper = Reaper()
    os.environ.update(ENVIRONMENT)
    environment = actor_environment(threads)
    path = _python_path()
    before = {name: os.environ.get(name) for name in environment | path}
    _set(environment | path)
    try:
        with loopback_only() as options, fewer_daemons(), java_keeps_its_signals():
            ray.init(
                address="local",
                num_cpus=num_cpus,
                num_gpus=num_gpus,
                include_dashboard=False,
                object_store_memory=OBJECT_STORE_BYTES,
                logging_level=logging.ERROR,
                log_to_driver=False,
                runtime_env=_python_of_workers(),
                **_without_folders(),
                **options,
            )
    except Exception as error:
        # Ray raises many kinds of errors here: its own, RuntimeError, OSError and others. For any
        # of them, the reaper must end what was started, and the user needs the remedy.
        reaper.close()
        raise IncompleteError(
            f"Ray did not start on this machine: {first_line(error)}; run the same command again, "
            "or without Ray: resources.backend=inline"
        ) from error
    finally:
        _set(before)
    inherited = {**ENVIRONMENT, **environment}
    for name in _submitted():
        inherited.pop(name, None)  # Ray sets these for every worker, whatever its environment
    return LocalRay(reaper, inherited)


_SOCKET = "/ray/session_2026-01-31_23-59-59_999999_{}/sockets/plasma_store"
"""The longest path of a socket below Ray's temporary folder, with the driver's number."""
_SOCKET_BYTES = 107
"""The longest path that Linux takes for a socket."""


def _check_temporary_folder() -> None:
    """Returns nothing where Ray can keep its sockets.

    Raises:
        InputError: the path is too long for a socket or relative, or there can be no folder.
    """
    name = next((name for name in ("RAY_TMPDIR", "TMPDIR") if name in os.environ), None)
    if name is None:
        return
    place, problem = os.environ[name], ""
    longest = _SOCKET_BYTES - len(_SOCKET.format(os.getpid()))
    if not os.path.isabs(place):
        problem = "a relative path"
    elif len(os.fsencode(place)) > longest:
        problem = f"{len(os.fsencode(place))} bytes, and the paths of its sockets would be too long"
    else:
        try:
            os.makedirs(os.path.join(place, "ray"), exist_ok=True)
        except OSError as error:
            if error.errno in _DISK:
                raise
            problem = f"no folder that can be used: {error.strerror}"
    if problem:
        raise InputError(
            f"{name}={place}: expected for Ray the absolute path of a folder, of at most "
            f"{longest} bytes; found {problem}. Set RAY_TMPDIR to such a folder, for example "
            "RAY_TMPDIR=/tmp, or work without Ray: resources.backend=inline"
        )


def _set(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _python_path() -> dict[str, str | None]:
    """The variables by which the Pythons of this machine's Ray find raypipe and no user's files.

    A raypipe that is installed is where every Python looks. Any other, such as one in the current
    folder, is taken alone by the module `sitecustomize` in SITE.
    """
    path: dict[str, str | None] = {"PYTHONPATH": None, **safe_variables()}
    if not _installed():
        path["PYTHONPATH"] = os.pathsep.join(filter(None, [str(SITE), path["PYTHONPATH"]]))
        path["RAYPIPE_FOLDER"] = str(FOLDER.parent)
    return path


SITE = FOLDER / "cluster" / "site"


def _installed() -> bool:
    """Whether other Pythons of this environment find this raypipe."""
    return str(FOLDER.parent) in sys.path[1:]  # the first may be the script's own


class _NoFolders(list[str]):
    """The driver's folders, which Ray sends to its workers; none are added."""

    def extend(self, folders: Iterable[str]) -> None:
        """Leave them out."""


def _without_folders() -> dict[str, Any]:
    """The options of `ray.init` with which workers do not look into this process's folders.

    Ray would put the current folder and the script's before everything else on their path, and
    under `uv run` send the current folder as a working directory.

    Source: `ray._private.worker.connect` and `init` of Ray 2.60.
    """
    job = JobConfig()
    job._py_driver_sys_path = _NoFolders()
    hooked = ray_constants.RAY_RUNTIME_ENV_HOOK in os.environ  # the user's own
    return {"job_config": job, "_skip_env_hook": not hooked}


def _python_of_workers() -> dict[str, str]:
    """The runtime environment with which a worker starts although Python's path has a blank.

    Ray hands the path to bash as it is. Where a node has no such Python, it is that on its PATH.

    Source: `ray._private.runtime_env.context.RuntimeEnvContext.exec_worker` of Ray 2.60.
    """
    quoted = shlex.quote(sys.executable)
    if quoted == sys.executable:
        return {}
    return {"py_executable": f'"$(command -v {quoted} || command -v python)"'}


@contextmanager
def java_keeps_its_signals() -> Iterator[None]:
    """Within the block Ray may start or end in this process; a JVM in it works as before.

    Java meets null pointers by SIGSEGV. Ray takes that signal when it starts and gives it to the
    system when it ends, so that the next null pointer ends the process.
    """
    if "jnius" not in sys.modules:
        yield
        return
    libc, before = ctypes.CDLL(None), dict[signal.Signals, ctypes.Array[ctypes.c_char]]()
    for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL):
        before[number] = ctypes.create_string_buffer(256)  # more than any system's sigaction
        libc.sigaction(number, None, before[number])
    try:
        yield
    finally:
        for number, action in before.items():
            libc.sigaction(number, action, None)


def connect(address: str, *, allow_open: bool = False) -> dict[str, float]:
    """The resources of the joined cluster now: CPU, GPU, accelerator_type:NAME and others.

    Raises:
        InputError: no answer, because there is no cluster, or the token is missing or wrong; or
            this process has a Ray already.
        RefusedError: other machines can reach the cluster, and it does not require a token.
    """
    _refuse_second()
    os.environ.update(OF_CLIENT)
    keep_token_private(create=False)
    dashboard = _join(address)
    try:
        hosts = sorted({node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]})
        problem = None if allow_open else open_cluster_problem(address, hosts)
        if problem and not asks_for_token(dashboard, ray.get_runtime_context().gcs_address):
            ray.shutdown()
            raise RefusedError(problem)
        return dict(ray.cluster_resources())
    except RaypipeError:
        raise
    except Exception as error:  # of many kinds, as where a token is sent and none is asked for
        raise _not_joined(address, error) from error


def actor_environment(threads: int) -> dict[str, str]:
    """The environment that an actor with `threads` threads needs before it imports torch."""
    return {"OMP_NUM_THREADS": str(threads), **numerics.for_workers()}


def job_environment() -> dict[str, str]:
    """The environment that Ray sets for every worker of a joined cluster.

    It has Ray's switches, and this process's mode of matrix products, which must be set before a
    worker's first product (see `raypipe.numerics`). Variables that the job was submitted with are
    left out: Ray refuses a variable that is set twice.
    """
    submitted = _submitted()
    wanted = {**ENVIRONMENT, **numerics.for_workers(), "PYTHONSAFEPATH": "1"}
    return {name: value for name, value in wanted.items() if name not in submitted}


def _refuse_second() -> None:
    """A start that fails would end the daemons of the first."""
    if ray.is_initialized():
        raise InputError(
            "Ray: this process has one already, and can have no second; end it first, by "
            "ray.shutdown()"
        )


def _submitted() -> dict[str, str]:
    """The variables that this job was submitted with; empty outside of a job."""
    return dict(_environment_of_job().get("env_vars") or {})


def _environment_of_job() -> dict[str, Any]:
    """The runtime environment that this job was submitted with; empty outside of a job."""
    config = json.loads(os.environ.get("RAY_JOB_CONFIG_JSON_ENV_VAR") or "{}")
    return dict(config.get("runtime_env") or {})


def _of_joined() -> dict[str, Any]:
    """The runtime environment of a joined cluster's workers.

    Where Ray puts a job's working directory on their path, or raypipe is not installed, the module
    `sitecustomize` in SITE is sent to them. It leaves that directory, and takes raypipe alone from
    where this process has it, relative to the directory if it is there: each node has its own copy.
    """
    submitted = _environment_of_job()
    environment: dict[str, Any] = {"env_vars": job_environment(), **_python_of_workers()}
    if "py_executable" in submitted:
        environment.pop("py_executable", None)
    if submitted.get("working_dir") or not _installed():
        own = str(SITE / "sitecustomize")
        environment["py_modules"] = [own, *(submitted.get("py_modules") or ())]
    if not _installed():
        _, unpacked, within = str(FOLDER.parent).partition(f"{os.sep}working_dir_files{os.sep}")
        place = within.partition(os.sep)[2] or "." if unpacked else str(FOLDER.parent)
        environment["env_vars"]["RAYPIPE_FOLDER"] = place
    return environment


def _join(address: str) -> str:
    """Address of the joined cluster's dashboard, which may be empty.

    If there is no answer or the token is wrong, Ray retries for ever.
    """
    end = time.monotonic() + JOIN_SECONDS

    def check() -> None:
        if time.monotonic() > end:
            raise TimeoutError(f"no answer after {JOIN_SECONDS:.0f} s")

    settings = {
        "logging_level": logging.ERROR,
        "log_to_driver": False,
        "runtime_env": _of_joined(),
        **({} if address.startswith("ray://") else _without_folders()),
    }
    try:
        with java_keeps_its_signals():
            joined = answer_of(partial(ray.init, address=address, **settings), check)
    except Exception as error:
        raise _not_joined(address, error) from error
    return joined.dashboard_url or ""


def _not_joined(address: str, error: Exception) -> InputError:
    return InputError(
        f"RAY_ADDRESS {address}: {error}. Expected a running cluster (`ray status`) and, "
        "if it requires a token, RAY_AUTH_MODE=token with the token in ~/.ray/auth_token; "
        "unset RAY_ADDRESS to use this machine alone"
    )
