"""Starts Ray on this machine or joins an existing cluster; no usage data are sent anywhere."""

import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager
from functools import partial
from queue import Empty, SimpleQueue
from typing import TypeVar

import psutil
import ray
from ray._private import parameter, services

from raypipe import numerics
from raypipe.cluster.guard import (
    asks_for_token,
    keep_token_private,
    loopback_only,
    open_cluster_problem,
)
from raypipe.cluster.reaper import Reaper
from raypipe.errors import (
    IncompleteError,
    InputError,
    RaypipeError,
    RefusedError,
    first_line,
)

Answer = TypeVar("Answer")
JOIN_SECONDS = 60.0
OBJECT_STORE_BYTES = 200 << 20  # only shard numbers and paths pass through it, never rows

ENVIRONMENT = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",  # a worker without GPUs must not see any
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "10",  # notice a dead head soon; reruns are cheap
}
OF_CLIENT = {**ENVIRONMENT, "RAY_gcs_rpc_server_reconnect_timeout_s": "600"}
"""A client of Ray ends its process with exit code 1 so many seconds after its head. The driver of a
joined cluster looks for the head itself, and ends before that with its own code."""
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
    """What a call of Ray returns or raises, unless `check` raises first.

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
        InputError: this process has a Ray already.
        IncompleteError: Ray does not start, for example on a machine that is too busy.
    """
    _refuse_second()
    reaper = Reaper()
    os.environ.update(ENVIRONMENT)
    environment = actor_environment(threads)
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        keep_token_private(create=True)
        with loopback_only() as options, fewer_daemons():
            ray.init(
                address="local",
                num_cpus=num_cpus,
                num_gpus=num_gpus,
                include_dashboard=False,
                object_store_memory=OBJECT_STORE_BYTES,
                logging_level=logging.ERROR,
                log_to_driver=False,
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
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
    inherited = {**ENVIRONMENT, **environment}
    for name in _submitted():
        inherited.pop(name, None)  # Ray sets these for every worker, whatever its environment
    return LocalRay(reaper, inherited)


@contextmanager
def fewer_daemons() -> Iterator[None]:
    """Within the block, `ray.init` starts a head without monitors and without a dashboard's server.

    There is nothing to scale, no log is sent to the driver, and the dashboard would be empty; yet
    each costs a good half second of a core, and Ray waits for the last. Ray's parameters can say
    so, but `ray.init` passes none of it on.

    Source: `ray._private.parameter.RayParams` and `ray._private.node.Node` of Ray 2.60.
    """
    before = parameter.RayParams, services.start_api_server
    parameter.RayParams = partial(parameter.RayParams, no_monitor=True, include_log_monitor=False)
    services.start_api_server = lambda *given, **settings: (None, None)  # no address, no process
    try:
        yield
    finally:
        parameter.RayParams, services.start_api_server = before


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
    wanted = {**ENVIRONMENT, **numerics.for_workers()}
    return {name: value for name, value in wanted.items() if name not in submitted}


def _refuse_second() -> None:
    """A start that fails would end the daemons of the first."""
    if ray.is_initialized():
        raise InputError(
            "Ray: this process has one already, and can have no second; give the call the one that "
            "open_ray opened (ray=...), or end it first: its close(), or ray.shutdown()"
        )


def _submitted() -> dict[str, str]:
    """The variables that this job was submitted with; empty outside of a job."""
    config = json.loads(os.environ.get("RAY_JOB_CONFIG_JSON_ENV_VAR") or "{}")
    return dict((config.get("runtime_env") or {}).get("env_vars") or {})


def _join(address: str) -> str:
    """Address of the joined cluster's dashboard, which may be empty.

    If there is no answer or the token is wrong, Ray retries for ever. So it runs in a thread that
    may be abandoned.
    """
    answers: SimpleQueue[str | Exception] = SimpleQueue()
    variables = job_environment()

    def join() -> None:
        try:
            joined = ray.init(
                address=address,
                logging_level=logging.ERROR,
                log_to_driver=False,
                runtime_env={"env_vars": variables},
            )
            answers.put(joined.dashboard_url or "")
        except Exception as error:  # raised by the waiting thread
            answers.put(error)

    threading.Thread(target=join, name=f"join {address}", daemon=True).start()
    try:
        answer = answers.get(timeout=JOIN_SECONDS)
    except Empty:
        answer = TimeoutError(f"no answer after {JOIN_SECONDS:.0f} s")
    if isinstance(answer, Exception):
        raise _not_joined(address, answer) from answer
    return answer


def _not_joined(address: str, error: Exception) -> InputError:
    return InputError(
        f"RAY_ADDRESS {address}: {error}. Expected a running cluster (`ray status`) and, "
        "if it requires a token, RAY_AUTH_MODE=token with the token in ~/.ray/auth_token; "
        "unset RAY_ADDRESS to use this machine alone"
    )
