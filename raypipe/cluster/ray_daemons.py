"""The daemons that Ray starts for one process: those that its workers need, and no others."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from ray._private import parameter, services, utils

AGENT = Path(__file__).with_name("no_agent.py")


@contextmanager
def fewer_daemons() -> Iterator[None]:
    """Within the block Ray starts a head without monitors and without any part of the dashboard.

    There is nothing to scale, no log is sent to the driver, and the dashboard would be empty; yet
    monitors and its server cost a good half second of a core each, and Ray waits for the last. Its
    agent costs four, and then some hundredths of a core, as it looks at each process of the machine
    every few seconds. Ray's parameters can leave out the first two, but `ray.init` passes none of
    it on.

    Source: `ray._private.parameter.RayParams`, `ray._private.node.Node` and
    `ray._private.services` of Ray 2.60.
    """
    before = parameter.RayParams, services.start_api_server
    parameter.RayParams = partial(parameter.RayParams, no_monitor=True, include_log_monitor=False)
    services.start_api_server = lambda *given, **settings: (None, None)  # no address, no process
    try:
        with no_agent():
            yield
    finally:
        parameter.RayParams, services.start_api_server = before


@contextmanager
def no_agent() -> Iterator[None]:
    """Within the block a raylet is started with a stand-in for the agent of the dashboard."""
    before = services.start_ray_process, utils.get_dashboard_dependency_error
    start = before[0]

    def started(command: Sequence[str], *given: Any, **settings: Any) -> Any:
        return start(without_agent(command), *given, **settings)

    services.start_ray_process = started
    utils.get_dashboard_dependency_error = lambda: None  # it would import them all to find out
    try:
        yield
    finally:
        services.start_ray_process, utils.get_dashboard_dependency_error = before


def without_agent(command: Sequence[str]) -> list[str]:
    """A raylet's command with the stand-in; the command of any other process as it is."""
    options = dict(word.partition("=")[::2] for word in command)
    if "--dashboard_agent_command" not in options:
        return list(command)
    agent = [sys.executable, "-I", "-S", str(AGENT)]
    agent += [options["--session_dir"], options["--node_id"]]
    option = f"--dashboard_agent_command={subprocess.list2cmdline(agent)}"
    return [option if word.startswith("--dashboard_agent_command=") else word for word in command]
