"""Ray started on the spot, or an existing cluster joined; nothing is sent anywhere."""

import logging
import os
from ipaddress import ip_address

import ray

from raypipe.errors import RefusedError

OBJECT_STORE_BYTES = 200 << 20  # rows never pass through it, only shard numbers and paths

ENVIRONMENT = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",  # a worker without GPUs must not see any
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "10",  # a dead head is told soon; reruns are cheap
}


def start_local(*, num_cpus: int, num_gpus: int = 0) -> None:
    """A cluster of this process alone, whatever RAY_ADDRESS says; it ends with this process."""
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
