"""Stands in for the agent of Ray's dashboard on a node whose dashboard nobody opens.

`python no_agent.py SESSION_FOLDER NODE_ID` is started by the node's raylet. That waits for three
ports, and ends when this process ends. Port -1 says that nobody listens, as Ray's own agent says
where the packages of its dashboard are not installed. Nothing is imported, so that it takes no time
to start.

Source: `ray.dashboard.agent` and `ray._raylet.persist_port` of Ray 2.60.
"""

import os
import sys
import time

PORTS = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port")
LOOK_SECONDS = 1.0


def main(session: str, node: str) -> None:
    """Write the ports, and return when the raylet has ended."""
    raylet = int(os.environ["RAY_RAYLET_PID"])
    for name in PORTS:
        path = os.path.join(session, f"{name}_{node}")
        with open(f"{path}.new", "w") as file:
            file.write("-1")
        os.replace(f"{path}.new", path)
    while os.getppid() == raylet:
        time.sleep(LOOK_SECONDS)


if __name__ == "__main__":
    main(*sys.argv[1:])
