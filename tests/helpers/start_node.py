"""`ray start` without daemons that tests do not need: `python start_node.py OPTIONS`.

Nothing is scaled, no log is sent to a driver and no client is far away. So the autoscaler runs with
`--autoscaling-config` alone, and neither the monitor of logs nor the proxy of clients. A head with
`--include-dashboard=True` has the dashboard's agent and, of its server, what takes jobs and tells
the state of the cluster; any other node has no part of it.
"""

import os
import sys
from contextlib import nullcontext
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[2])
# Of Ray's other commands, which take three times as long to import.
OTHERS = ("ray.serve.scripts", "ray.dashboard.modules.job.cli", "ray.util.state.state_cli")
sys.modules |= dict.fromkeys(OTHERS)

from ray._private import services  # noqa: E402
from ray.scripts import scripts  # noqa: E402

from raypipe.cluster.ray_daemons import fewer_daemons  # noqa: E402

# No process that is ready serves a driver of raypipe: its workers' environment is another one.
os.environ["RAY_prestart_worker_first_driver"] = "0"
os.environ["REPORTER_UPDATE_INTERVAL_MS"] = "600000"  # nobody looks at what the agent measures
DASHBOARD = "--include-dashboard=True"
MODULES = "--modules-to-load=JobHead,NodeHead,StateHead"
"""Each is a process of its own, and there are nine."""


def main():
    options = sys.argv[1:]
    more = ["--include-log-monitor=False"]
    if not any(option.startswith("--autoscaling-config") for option in options):
        more.append("--no-monitor")
    sys.argv[1:] = ["start", *options, *more]
    scripts.get_ray_client_dependency_error = lambda: ImportError("left out")
    start = services.start_ray_process

    def started(command, process_type, **settings):
        more = [MODULES] if process_type == "dashboard" else []
        return start([*command, *more], process_type, **settings)

    services.start_ray_process = started
    with nullcontext() if DASHBOARD in options else fewer_daemons():
        scripts.main()


if __name__ == "__main__":
    main()
