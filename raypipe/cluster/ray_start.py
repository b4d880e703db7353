"""Ray started on the spot, or an existing cluster joined; nothing is sent anywhere."""

import json
import logging
import os
import threading
import urllib.request
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from queue import Empty, SimpleQueue
from urllib.error import HTTPError

import psutil
import ray

from raypipe import numerics
from raypipe.cluster.reaper import Reaper
from raypipe.errors import IncompleteError, InputError, RefusedError, first_line

JOIN_SECONDS = 60.0
ASK_SECONDS = 5.0
OBJECT_STORE_BYTES = 200 << 20  # rows never pass through it, only shard numbers and paths

ENVIRONMENT = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",  # a worker without GPUs must not see any
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "10",  # a dead head is noticed soon; reruns are cheap
}


class LocalRay:
    """The daemons of a cluster of this process alone, and the reaper of what they leave."""

    def __init__(self, reaper: Reaper, environment: Mapping[str, str]) -> None:
        """Ray must have been started by this process, with `environment` set."""
        self._reaper = reaper
        self.environment = dict(environment)
        """What every worker process inherits.

        An actor that needs nothing else takes a process that Ray holds ready.
        """
        below = psutil.Process().children()
        names = ("gcs_server", "raylet")
        self._daemons: dict[psutil.Process, str] = {p: p.name() for p in below if p.name() in names}

    def ended(self) -> bool:
        """Whether a daemon is gone; Ray's own calls may then wait for ever."""
        return self._missing() is not None

    def check(self) -> None:
        """Nothing, while every daemon runs.

        Raises:
            IncompleteError: one is gone; it is named.
        """
        name = self._missing()
        if name is not None:
            raise IncompleteError(
                f"Ray's {name} on this machine has ended; what is committed stays, and the same "
                "command resumes"
            )

    def close(self) -> None:
        """End every process that is left."""
        self._reaper.close()

    def _missing(self) -> str | None:
        for process, name in self._daemons.items():
            if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
                return name
        return None


def start_local(*, num_cpus: int, num_gpus: int = 0, threads: int = 1) -> LocalRay:
    """A cluster of this process alone, whatever RAY_ADDRESS says; it ends with this process.

    Its workers inherit their environment, `threads` included: where Ray is asked to set it, it
    throws away the processes that it holds ready and starts one for each actor.

    Raises:
        IncompleteError: Ray does not start, for example on a machine that is too busy.
    """
    reaper = Reaper()
    os.environ.update(ENVIRONMENT)
    environment = actor_environment(threads)
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        ray.init(
            address="local",
            num_cpus=num_cpus,
            num_gpus=num_gpus,
            include_dashboard=False,
            object_store_memory=OBJECT_STORE_BYTES,
            logging_level=logging.ERROR,
            log_to_driver=False,
        )
    except Exception as error:
        # Ray raises errors of many kinds here, its own, RuntimeError, OSError and more. Whichever
        # it is, the reaper must end what has begun, and the user needs the remedy.
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
        inherited.pop(name, None)  # Ray sets these for every worker, whatever it inherits
    return LocalRay(reaper, inherited)


def connect(address: str, *, allow_open: bool = False) -> dict[str, float]:
    """What the joined cluster has now: CPU, GPU, accelerator_type:NAME and so on.

    Raises:
        InputError: no answer: no cluster is there, or the token is missing or wrong.
        RefusedError: other machines can reach the cluster and it asks for no token.
    """
    os.environ.update(ENVIRONMENT)
    dashboard = _join(address)
    hosts = sorted({node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]})
    mode = os.environ.get("RAY_AUTH_MODE", "")
    closed = asks_for_token(_status_without_token(dashboard), mode)
    problem = None if closed or allow_open else open_cluster_problem(address, hosts)
    if problem is not None:
        ray.shutdown()
        raise RefusedError(problem)
    return dict(ray.cluster_resources())


def asks_for_token(status: int | None, mode: str) -> bool:
    """Whether a cluster turns strangers away.

    Args:
        status: what its dashboard answered a request without a token; None for no answer (it
            listens on the head's loopback, and this is another node).
        mode: RAY_AUTH_MODE here, believed only where the cluster itself did not answer.
    """
    return mode == "token" if status is None else status in (401, 403)


def open_cluster_problem(address: str, hosts: Sequence[str]) -> str | None:
    """Why a cluster without token authentication is refused; None if only loopback reaches it.

    Source: CVE-2023-48022; whoever reaches an open Ray cluster can run code on it.
    """
    reachable = [host for host in hosts if not _is_loopback(host)]
    if not reachable:
        return None
    return (
        f"the Ray cluster at {address} listens on {', '.join(reachable)} and asks for no token: "
        "whoever reaches it can run code. Run `ray get-auth-token --generate`, export "
        "RAY_AUTH_MODE=token, start it again, or pass --allow-open-cluster"
    )


def actor_environment(threads: int) -> dict[str, str]:
    """What an actor with so many threads must find set before it imports torch."""
    return {"OMP_NUM_THREADS": str(threads), **numerics.for_workers()}


def job_environment() -> dict[str, str]:
    """What Ray sets for every worker of a cluster that is joined.

    Ray's switches, and this process's mode of matrix products, which must be set before a worker's
    first product (see `raypipe.numerics`). What the job was submitted with is left out: Ray refuses
    a variable that both set.
    """
    submitted = _submitted()
    wanted = {**ENVIRONMENT, **numerics.for_workers()}
    return {name: value for name, value in wanted.items() if name not in submitted}


def _submitted() -> dict[str, str]:
    """The variables that this job was submitted with; empty outside of a job."""
    config = json.loads(os.environ.get("RAY_JOB_CONFIG_JSON_ENV_VAR") or "{}")
    return dict((config.get("runtime_env") or {}).get("env_vars") or {})


def _join(address: str) -> str:
    """Address of the joined cluster's dashboard, which may be empty.

    Ray itself asks for ever, whether nobody answers or the token is wrong, so it is left to a
    thread that may be abandoned.
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
        except Exception as error:  # raised by the thread that waits
            answers.put(error)

    threading.Thread(target=join, name=f"join {address}", daemon=True).start()
    try:
        answer = answers.get(timeout=JOIN_SECONDS)
    except Empty:
        answer = TimeoutError(f"no answer after {JOIN_SECONDS:.0f} s")
    if isinstance(answer, Exception):
        raise InputError(
            f"RAY_ADDRESS {address}: {answer}. Expected a running cluster (`ray status`) and, "
            "where it asks for a token, RAY_AUTH_MODE=token with its token in ~/.ray/auth_token; "
            "unset RAY_ADDRESS to use this machine alone"
        ) from answer
    return answer


def _status_without_token(dashboard: str) -> int | None:
    """HTTP status of the cluster's job list for a stranger; None if nobody answers."""
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
