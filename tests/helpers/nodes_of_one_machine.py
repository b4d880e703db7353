"""Ray's provider of nodes that are processes of one machine, each with a folder for its files.

Ray gives them one folder, the session's. A node that starts unpacks a job's code there anew, over
the code that the driver is running.
"""

from contextlib import ExitStack

from ray._private import ray_constants
from ray.autoscaler._private.fake_multi_node.node_provider import FakeMultiNodeProvider

from raypipe.cluster.ray_daemons import fewer_daemons

FEWER = ExitStack()
FEWER.enter_context(fewer_daemons())  # of all nodes that this process starts


class Nodes(FakeMultiNodeProvider):
    def _next_hex_node_id(self) -> str:
        """Called under the provider's lock, just before the node's parameters are made."""
        node_id = super()._next_hex_node_id()
        ray_constants.DEFAULT_RUNTIME_ENV_DIR_NAME = f"runtime_resources_{node_id[-5:]}"
        return node_id
