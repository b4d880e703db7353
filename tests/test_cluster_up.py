"""The node groups, container variables and start command of cluster.yaml, run on this machine.

Ray's own autoscaler starts the GPU nodes, with Ray's provider of nodes that are processes here in
place of AWS; their GPUs are logical. What needs AWS is not run: launching, SSH, Docker, the bucket.
"""

import copy
import json
import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import yaml
from cluster_of_nodes import START, SUBMIT
from free_ports import free_ports
from patience import end_all

pytestmark = [pytest.mark.ray, pytest.mark.slow]

ROOT = Path(__file__).parent.parent
WALK_THROUGH = (ROOT / "docs" / "cluster.md").read_text()
CLUSTER = yaml.safe_load((ROOT / "cluster.yaml").read_text())
HEAD_ID = "f" * 51 + "00000"  # the provider's name of the head's node, and its only type
HEAD_TYPE = "ray.head.default"
HELPERS = ROOT / "tests" / "helpers"
PROVIDER = "nodes_of_one_machine.Nodes"
FILLED_IN_BY_RAY_UP = {
    "cluster_synced_files": [],
    "file_mounts_sync_continuously": False,
    "rsync_exclude": [],
    "rsync_filter": [],
    "worker_setup_commands": [],
}
RECIPE = """
format: 1
name: job
collection: {format: msmarco-v1, input: passages.tsv}
queries:
  dev: {file: queries.tsv}
models:
  tiny: {path: model}
stages:
  embeddings: {do: encode, model: tiny}
  dense: {do: search, index: embeddings, depth: 5}
resources: {threads: 1, shard_rows: 20, shard_tokens: 200}
"""


@dataclass
class Head:
    address: str
    environment: dict[str, str]
    process: psutil.Process

    def run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            env=self.environment,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def nodes(self) -> list[dict[str, object]]:
        """Waits for the first: the dashboard answers before it knows of any."""
        token = Path(self.environment["RAY_AUTH_TOKEN_PATH"]).read_text()
        listing = urllib.request.Request(f"{self.address}/api/v0/nodes?detail=True")
        listing.add_header("Authorization", f"Bearer {token}")
        while True:
            with urllib.request.urlopen(listing) as reply:
                nodes = json.load(reply)["data"]["result"]["result"]
            if nodes:
                return nodes
            time.sleep(0.5)


def autoscaling(gcs: str) -> dict[str, object]:
    """cluster.yaml as the head finds it, with nodes of a size that this machine can hold."""
    types = copy.deepcopy(CLUSTER["available_node_types"])
    for node in types.values():
        node["node_config"] = {}
        node["resources"] = {"CPU": 1, **{k: 1 for k in node["resources"] if k == "GPU"}}
        # More than a job asks for: a loaded machine's autoscaler may see one demand twice.
        node["max_workers"] = min(4, node.get("max_workers", 0))
    types[HEAD_TYPE] = types.pop(CLUSTER["head_node_type"])
    types[HEAD_TYPE]["resources"] = {"CPU": 2}
    provider = {
        "type": "external",
        "module": PROVIDER,
        "launch_multiple": True,
        "head_node_id": HEAD_ID,
        "gcs_address": gcs,
        "disable_node_updaters": True,
        "disable_launch_config_check": True,
    }
    changed = {"provider": provider, "head_node_type": HEAD_TYPE, "available_node_types": types}
    here = {"auth": {}, "docker": {}, "file_mounts": {}}
    return {**CLUSTER, **FILLED_IN_BY_RAY_UP, **changed, **here}


def container_variables(folder: Path) -> dict[str, str]:
    """The variables of cluster.yaml's containers, the token in a file as `file_mounts` puts it."""
    options = [shlex.split(option) for option in CLUSTER["docker"]["run_options"]]
    variables = dict(words[1].split("=", 1) for words in options if words[0] == "-e")
    token = folder / "auth_token"
    token.write_text(secrets.token_hex(32))
    return {**variables, "RAY_AUTH_TOKEN_PATH": str(token)}


def environment(folder: Path, address: str) -> dict[str, str]:
    """Also what `ray up` exports on a head; any connection beyond this machine fails."""
    dead = "http://127.0.0.1:9"
    kept = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    return {
        **kept,
        **container_variables(folder),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        # The first in place of the wheel that every node installs.
        "PYTHONPATH": f"{ROOT}{os.pathsep}{HELPERS}",
        "RAY_enable_autoscaler_v2": "1",
        "RAY_CLOUD_INSTANCE_ID": HEAD_ID,
        "RAY_NODE_TYPE_NAME": HEAD_TYPE,
        "RAY_OVERRIDE_NODE_ID_FOR_TESTING": HEAD_ID,
        "RAY_FAKE_CLUSTER": "1",
        "AUTOSCALER_UPDATE_INTERVAL_S": "1",
        "HTTP_PROXY": dead,
        "HTTPS_PROXY": dead,
        "NO_PROXY": f"127.0.0.1,localhost,{address}",
    }


def start_command(bootstrap: Path, port: int, dashboard: int) -> list[str]:
    """The head's own, on ports of its own and with a small object store.

    Resources and labels are options here: the variables that `ray up` exports for them would
    reach the nodes that this head starts on this machine.
    """
    (command,) = [c for c in CLUSTER["head_start_ray_commands"] if c.startswith("ray start")]
    replaced = {
        "--port=6379": f"--port={port}",
        "--object-manager-port=8076": "--object-manager-port=0",
        "--autoscaling-config=~/ray_bootstrap_config.yaml": f"--autoscaling-config={bootstrap}",
    }
    words = [replaced.pop(word, word) for word in shlex.split(command)]
    assert not replaced, "options that the command no longer has"
    words += [f"--dashboard-port={dashboard}", "--include-dashboard=True"]
    words += ["--dashboard-agent-listen-port=0", "--min-worker-port=0", "--max-worker-port=0"]
    head = CLUSTER["available_node_types"][CLUSTER["head_node_type"]]
    words += ["--num-cpus=2", f"--labels={','.join(f'{k}={v}' for k, v in head['labels'].items())}"]
    words += ["--block", f"--temp-dir={bootstrap.parent}", "--object-store-memory=100000000"]
    assert words[:2] == ["ray", "start"]
    return [sys.executable, str(START), *words[2:]]


def answer(url: str) -> int | None:
    try:
        with urllib.request.urlopen(url) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None


@pytest.fixture(scope="module")
def head():
    from ray._private.services import get_node_ip_address

    folder = Path(tempfile.mkdtemp(prefix="rp", dir="/tmp"))  # socket paths hold 107 characters
    port, dashboard = free_ports(2)
    here = get_node_ip_address()
    config = autoscaling(f"{here}:{port}")
    bootstrap = folder / "bootstrap.yaml"
    bootstrap.write_text(json.dumps(config))
    variables = environment(folder, here)
    command = start_command(bootstrap, port, dashboard)
    log = (folder / "head.log").open("wb")
    process = subprocess.Popen(command, env=variables, stdout=log, stderr=log)
    address = f"http://127.0.0.1:{dashboard}"
    try:
        while answer(f"{address}/api/version") is None:
            assert process.poll() is None, (folder / "head.log").read_text()
            time.sleep(0.2)
        yield Head(address, variables, psutil.Process(process.pid))
    finally:
        below = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        end_all(below)
        process.wait()
        log.close()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def recipe(tmp_path_factory, tiny_model) -> Path:
    folder = tmp_path_factory.mktemp("files")
    lines = [f"{row}\tthe lease of shard {row} ranks a zebra\n" for row in range(60)]
    (folder / "passages.tsv").write_text("".join(lines))
    (folder / "queries.tsv").write_text("q1\tthe zebra\nq2\ta lease\n")
    (folder / "model").symlink_to(tiny_model)
    (folder / "recipe.yaml").write_text(RECIPE)
    return folder / "recipe.yaml"


def shown_job(head: Head, changed: dict[str, str]) -> list[str]:
    """The job of docs/cluster.md for cluster.yaml, waited for, some of its words changed."""
    (line,) = re.findall(r"^    (ray job submit .*s3://.*)$", WALK_THROUGH, re.MULTILINE)
    address = {"http://127.0.0.1:8265": head.address}
    words = [{**address, **changed}.get(w, w) for w in shlex.split(line) if w != "--no-wait"]
    assert set(changed.values()) <= set(words), "words that docs/cluster.md no longer has"
    assert words[:3] == ["ray", "job", "submit"]
    return [sys.executable, *SUBMIT, *words[3:]]


def test_a_stranger_is_turned_away_and_the_dashboard_listens_on_loopback_alone(head):
    assert answer(f"{head.address}/api/jobs/") == 401
    port = int(head.address.rpartition(":")[2])
    below = [head.process, *head.process.children(recursive=True)]
    bound = [c.laddr for one in below for c in one.net_connections("tcp") if c.status == "LISTEN"]
    assert {where.ip for where in bound if where.port == port} == {"127.0.0.1"}


def test_the_job_shown_starts_spot_nodes_for_its_actors_and_completes(head, recipe, tmp_path):
    assert [node["labels"]["ray.io/market-type"] for node in head.nodes()] == ["on-demand"]
    out = tmp_path / "work"
    changed = {
        "msmarco-passage": str(recipe),
        "/shared/msmarco": str(out),
        "stores=s3://my-bucket/stores": f"stores={tmp_path / 'stores'}",
        "resources.gpus=8": "resources.gpus=2",
    }
    done = head.run(shown_job(head, changed))
    assert done.returncode == 0, done.stdout
    assert "device: 2 x GPU (of 0 visible)" in done.stdout, "none was there when it began"
    assert "raypipe: exit 0 (complete)" in done.stdout
    assert len((out / "runs" / "dev" / "dense.trec").read_text().splitlines()) == 10
    assert not (out / "stores").exists()
    nodes = head.nodes()
    markets = [n["labels"]["ray.io/market-type"] for n in nodes if "GPU" in n["resources_total"]]
    assert markets and set(markets) == {"spot"}

    (status,) = re.findall(r"^    ray exec cluster.yaml '(.*)'$", WALK_THROUGH, re.MULTILINE)
    words = [str(out) if word == "/shared/msmarco" else word for word in shlex.split(status)]
    told = head.run([sys.executable, "-m", *words])
    assert told.returncode == 0 and "complete" in told.stdout


def test_a_job_with_relative_stores_fails_before_any_work_and_says_the_remedy(head, tmp_path):
    out = tmp_path / "work"
    changed = {
        "/shared/msmarco": str(out),
        "msmarco-1": "relative",
        "stores=s3://my-bucket/stores": "stores=stores",
    }
    done = head.run(shown_job(head, changed))
    assert done.returncode == 1
    assert "stores: expected a bucket" in done.stdout and "stores=s3://" in done.stdout
    assert "raypipe: exit 2 " in done.stdout
    assert not out.exists()
