"""A driver that is stopped, replaced and then goes on: everything that stands is its successor's.

The driver is in a process-id namespace of its own, as in a container, so that its successor cannot
see whether it lives. Being paused, it renews no lease.
"""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
import yaml
from safetensors.torch import load_file
from small_training import Recipes
from tiny_workspace import RECIPE

from raypipe.driver.summaries import read_summary
from raypipe.driver.upkeep.status import open_workspace, status
from raypipe.driver.upkeep.verify import verify
from raypipe.storage.lease import lease_state
from raypipe.storage.records import hash_file

pytestmark = pytest.mark.long
ELSEWHERE = ["unshare", "--pid", "--fork", "--mount-proc"]


class Driver:
    """A command and what it says; `elsewhere` in a process-id namespace of its own."""

    def __init__(self, words, *, elsewhere=False):
        command = [sys.executable, "-m", "raypipe", *map(str, words)]
        self._outer = subprocess.Popen(
            [*(ELSEWHERE if elsewhere else ()), *command], stderr=subprocess.PIPE, text=True,
            stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        self._elsewhere = elsewhere

    @property
    def process(self):
        outer = psutil.Process(self._outer.pid)
        return outer.children()[0] if self._elsewhere else outer

    def running(self):
        return self._outer.poll() is None

    def ended(self):
        """The exit code and all that it said."""
        said = self._outer.communicate()[1]
        return self._outer.returncode, said


def until(found, what, *drivers):
    while not found():
        assert all(driver.running() for driver in drivers), f"it ended before: {what}"
        time.sleep(0.02)


@pytest.fixture(autouse=True)
def namespaces():
    done = subprocess.run([*ELSEWHERE, "true"], capture_output=True, text=True)
    assert done.returncode == 0, f"this test needs the right to make namespaces: {done.stderr}"


@pytest.fixture(params=["pipeline", "train"])
def work(request, tmp_path, small_files, tiny_model):
    """A command, its workspace, and the records that show how far it is."""
    recipe, out, stores = tmp_path / "recipe.yaml", tmp_path / "w", tmp_path / "stores"
    if request.param == "pipeline":
        recipe.write_text(RECIPE.format(files=small_files, stores=stores, model="minilm"))
        with recipe.open("a") as file:
            file.write("\n")
        return ["pipeline", recipe, "resources.shard_tokens=1500"], out, "embeddings/*/shards/*"
    path = Recipes(small_files, tiny_model, tmp_path).write(
        steps=400, checkpoint_every=10, validate={"every": 40}
    )
    body = {**yaml.safe_load(path.read_text()), "stores": str(stores)}
    recipe.write_text(yaml.safe_dump(body, sort_keys=False))
    return ["train", recipe], out, "weights@*/*/steps/*"


@pytest.fixture
def calm(work, tmp_path):
    """What is left by the same command, undisturbed."""
    words, _, _ = work
    other = [*words, "--out", tmp_path / "calm", f"stores={tmp_path / 'calm' / 'stores'}"]
    assert Driver(other).ended()[0] == 0
    return results(tmp_path / "calm")


def results(out):
    kept = [*out.rglob("*.trec"), *out.glob("models/**/*.safetensors")]
    return {str(path.relative_to(out)): hash_file(path) for path in kept}


@pytest.mark.fault(44, "a trainer as well: its successor's checkpoints and weights stand")
@pytest.mark.fault(
    13, "a driver stopped in a namespace of its own, succeeded and woken: all is its successor's"
)
@pytest.mark.parametrize("woken", ["during", "after"])
def test_a_zombie_leaves_everything_to_its_successor(work, calm, tmp_path, woken):
    words, out, records = work
    stores = tmp_path / "stores"
    command = [*words, "--out", out]

    def committed():
        return len(list(stores.glob(records)))

    zombie = Driver(command, elsewhere=True)
    until(lambda: committed() >= 2, "the driver's first records", zombie)
    zombie.process.send_signal(signal.SIGSTOP)
    before, run = highest(stores, records), read_summary(out)["run"]
    successor = Driver(command)
    until(lambda: highest(stores, records) > before, "the successor's records", successor)
    assert read_summary(out)["run"] != run
    holder = successor.process.pid
    if woken == "after":
        code, said = successor.ended()
        assert code == 0, said
    own = read_summary(out)["run"]
    word = nonces(stores)
    assert successor.running() == (woken == "during")
    zombie.process.send_signal(signal.SIGCONT)
    code, said = zombie.ended()
    assert code == 4 and "taken over" in said, said
    if woken == "during":
        assert not successor.running() or nonces(stores) == word
        code, said = successor.ended()
        assert code == 0, said
    assert nonces(stores) == {}
    summary = read_summary(out)
    assert (summary["run"], summary["status"], summary["exit"]) == (own, "complete", 0)
    assert status(out).exit_code == 0
    workspace = open_workspace(out)
    for storage, name in [(workspace.own, "lease.json"), *leases(stores, workspace)]:
        lease = lease_state(storage, name)
        assert lease.released and lease.holder.pid == holder, name
    assert not list(stores.glob("weights@*/*/steps/*")), "checkpoints after the training"
    assert verify(workspace) == [] and results(out) == calm and calm
    for model in out.glob("models/*/model.safetensors"):
        assert load_file(model)


def highest(stores, records):
    return max((path.name for path in stores.glob(records)), default="")


def nonces(stores):
    return {str(path): path.read_text() for path in stores.glob("nonce/*/*")}


def leases(stores, workspace):
    """The leases that were held by both: that of the store at which the zombie was stopped."""
    names = (path for path in stores.glob("*/*/lease.json") if len(list(claims(path))) > 1)
    return [(workspace.stores, str(path.relative_to(stores))) for path in names]


def claims(path):
    return path.with_name(f"{path.name}.d").glob("*.json")
