"""Starts Ray without the daemons that a cluster of one process does not need.

Ray would start an autoscaler's monitor, though there is nothing to scale, a log monitor, though no
log is sent to the driver, and without a dashboard still the process that would serve it. Each takes
seconds of a core to start, and two of them some more while they run; starting them is half of the
time in which Ray starts. Ray's own parameters say so, but `ray.init` does not pass them on.

Source: `ray._private.parameter.RayParams` and `ray._private.node.Node` of Ray 2.60.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from ray._private import parameter, services


@contextmanager
def fewer_daemons() -> Iterator[None]:
    """Within the block, `ray.init` starts a head with gcs_server, raylet and its two agents."""
    before = parameter.RayParams, services.start_api_server
    parameter.RayParams = partial(parameter.RayParams, no_monitor=True, include_log_monitor=False)
    services.start_api_server = _no_server
    try:
        yield
    finally:
        parameter.RayParams, services.start_api_server = before


def _no_server(*given: Any, **settings: Any) -> tuple[None, None]:
    """Neither an address nor a process, as where Ray's server may fail to start."""
    return None, None
