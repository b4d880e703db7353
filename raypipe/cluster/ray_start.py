"""Ray started on the spot, or an existing cluster joined; nothing is sent anywhere."""

import logging
import os
from ipaddress import ip_address

import psutil
import ray

from raypipe.cluster.reaper import Reaper
from raypipe.errors import IncompleteError, RefusedError

OBJECT_STORE_BYTES = 200 << 20  # rows never pass through it, only shard numbers and paths

ENVIRONMENT = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",  # a worker without GPUs must not see any
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "10",  # a dead head is told soon; reruns are cheap
}


class LocalRay:
    """The daemons of a cluster of this process alone, and the reaper of what they leave."""

    def __init__(self, reaper: Reaper) -> None:
        """Ray must have been started by this process."""
        self._reaper = reaper
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


def start_local(*, num_cpus: int, num_gpus: int = 0) -> LocalRay:
    """A cluster of this process alone, whatever RAY_ADDRESS says; it ends with this process."""
    reaper = Reaper()
    os.environ.update(ENVIRONMENT)
    ray.init(
        address="local",
        num_cpus=num_cpus,
        num_gpus=num_gpus,
        include_dashboard=False,
        object_store_memory=OBJECT_STORE_BYTES,
        logging_level=logging.ERROR,
        log_to_driver=False,
        runtime_env={"env_vars": ENVIRONMENT},
    )
    return LocalRay(reaper)


def connect(address: str, *, allow_open: bool = False) -> None:
    """Join a cluster.

    Raises:
        RefusedError: the cluster is on other machines and asks for no token: anyone who reaches
            its ports can run code there.
    """
    os.environ.update(ENVIRONMENT)
    ray.init(
        address=address,
        logging_level=logging.ERROR,
        log_to_driver=False,
        runtime_env={"env_vars": ENVIRONMENT},
    )
    hosts = {node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
    is_open = os.environ.get("RAY_AUTH_MODE") != "token"
    if is_open and not allow_open and not _only_this_machine(hosts):
        ray.shutdown()
        raise RefusedError(
            f"the Ray cluster at {address} spans {len(hosts)} host(s) and RAY_AUTH_MODE is not "
            "`token`: whoever reaches it can run code. Start it with token authentication and "
            "export RAY_AUTH_MODE=token everywhere, or pass --allow-open-cluster"
        )


def _only_this_machine(hosts: set[str]) -> bool:
    mine = ray.util.get_node_ip_address()
    return all(host == mine or ip_address(host).is_loopback for host in hosts)
