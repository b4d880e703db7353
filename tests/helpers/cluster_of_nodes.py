"""A Ray cluster of several nodes on this machine, each of which can be killed and started again."""

import itertools
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import psutil
from free_ports import free_ports

START = Path(__file__).with_name("start_node.py")
SUBMIT = ("-c", "from ray.dashboard.modules.job.cli import submit; submit()")
"""Of a Python, what `ray job submit` does: without Ray's other commands, which take two seconds of
a core to import."""


class Nodes:
    """A head without work and some nodes of one CPU each; a token keeps strangers out.

    The variables are in the environment of every process of every node. With `jobs` the head takes
    jobs at `dashboard`.
    """

    def __init__(self, count: int, variables: Mapping[str, str], *, jobs: bool = False) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="rp", dir="/tmp"))  # socket paths are short
        self._numbers = itertools.count()
        self._port, port = free_ports(2)
        kept = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")} | variables
        token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        self._environment = {**kept, **token, "RAY_USAGE_STATS_ENABLED": "0"}
        self._environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.dashboard = f"http://127.0.0.1:{port}"
        self.submit = (sys.executable, *SUBMIT)
        head = ["--head", f"--port={self._port}", "--num-cpus=0", f"--include-dashboard={jobs}"]
        head.append(f"--dashboard-port={port}")
        agent = 0
        if jobs:  # the dashboard's agent starts their drivers
            (agent,) = free_ports(1)
            head.append(f"--dashboard-agent-listen-port={agent}")
        self._nodes: list[psutil.Process] = []
        self._head = self._start(*head)
        try:
            self._wait_for_head()
            for _ in range(count):
                self.add()
            if agent:  # without which a job is refused
                self._wait_for_port("127.0.0.1", agent)
        except BaseException:
            self.close()
            raise

    @property
    def environment(self) -> dict[str, str]:
        """Under which a driver joins the cluster."""
        return {**self._environment, "RAY_ADDRESS": f"{self._host}:{self._port}"}

    def add(self) -> None:
        """Start a node that joins; the one before must have: two that start at once share files."""
        if self._nodes:
            self._wait_for(self._nodes[-1])
        self._nodes.append(self._start(f"--address={self._host}:{self._port}", "--num-cpus=1"))

    def head(self) -> list[psutil.Process]:
        """Every process of the head."""
        return tree(self._head)

    def last(self) -> list[psutil.Process]:
        """Every process of the node that joined last."""
        return tree(self._nodes[-1])

    def below(self) -> list[psutil.Process]:
        """Every process of the nodes, not of the head."""
        return [one for node in self._nodes for one in tree(node)]

    def kill_raylet(self, rng) -> bool:
        """Kill the raylet of a node, as a node's failing process would end; another node joins."""
        node = rng.choice(self._nodes)
        raylets = [one for one in tree(node) if name_of(one) == "raylet"]
        for one in raylets:
            one.kill()
        if raylets:
            self._replace(node)
        return bool(raylets)

    def take_away(self, node: psutil.Process) -> None:
        """Kill every process of a node at once, as a machine's end would."""
        for one in tree(node):
            end(one)
        psutil.wait_procs([node], timeout=30)
        self._nodes.remove(node)

    def take_last(self) -> None:
        """Take the node away that joined last."""
        self.take_away(self._nodes[-1])

    def kill_node(self, rng) -> bool:
        """Take a node away; another node joins."""
        self.take_away(rng.choice(self._nodes))
        self.add()
        return True

    def close(self) -> None:
        """End every process of the cluster."""
        for node in [*self._nodes, self._head]:
            for one in tree(node):
                end(one)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _replace(self, node: psutil.Process) -> None:
        psutil.wait_procs([node], timeout=30)
        for one in tree(node):
            end(one)
        self._nodes.remove(node)
        self.add()

    def _start(self, *options: str) -> psutil.Process:
        command = [sys.executable, str(START), "--block", *options]
        command += ["--min-worker-port=0", "--max-worker-port=0", "--disable-usage-stats"]
        command += ["--object-store-memory=100000000"]
        if "--head" in options:
            command.append(f"--temp-dir={self._folder}")
        self._log = self._folder / f"node{next(self._numbers)}.log"
        with self._log.open("ab") as log:
            started = subprocess.Popen(command, env=self._environment, stdout=log, stderr=log)
        return psutil.Process(started.pid)

    def _wait_for(self, last: psutil.Process) -> None:
        """Until the node that was started last has joined or was killed."""
        while "Ray runtime started" not in self._log.read_text():
            if name_of(last) == "" or last.status() == psutil.STATUS_ZOMBIE:
                return
            time.sleep(0.05)

    def _wait_for_head(self) -> None:
        from ray._private.services import get_node_ip_address

        self._host = get_node_ip_address()
        self._wait_for_port(self._host, self._port)

    def _wait_for_port(self, host: str, port: int) -> None:
        while True:
            try:
                socket.create_connection((host, port), timeout=1).close()
                return
            except OSError:
                assert name_of(self._head), self._log.read_text()
                time.sleep(0.2)


def tree(process: psutil.Process) -> list[psutil.Process]:
    try:
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def name_of(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return ""


def end(process: psutil.Process) -> None:
    try:
        process.send_signal(signal.SIGKILL)
    except psutil.NoSuchProcess:
        pass
