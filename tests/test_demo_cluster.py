"""The demonstration of a cluster, in small, as its user starts it."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

DEMO = Path(__file__).parent.parent / "jobs" / "demo_cluster.py"
COMMAND = [sys.executable, str(DEMO), "--passages", "120"]
pytestmark = [pytest.mark.slow, pytest.mark.ray, pytest.mark.timeout(1200)]


@pytest.mark.fault(
    4, "a node taken away for good while it encodes, one joins while it scores: the same payloads"
)
def test_a_cluster_that_loses_and_gains_a_node_writes_the_same_payloads_and_is_gone(tmp_path):
    done = subprocess.run([*COMMAND, "--keep", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^payloads: \d+ in each job, every SHA-256 the same", done.stdout, re.M)
    for name in ("loses a node", "gains a node"):
        assert f"the job that {name}: " in done.stdout
    assert len(re.findall(r"begun and given up: \d+, with \d+ rows$", done.stdout, re.M)) == 2
    left = [one for one in psutil.process_iter(["cmdline"]) if str(tmp_path) in str(one.info)]
    assert left == []
    again = subprocess.run([*COMMAND, "--keep", str(tmp_path)], capture_output=True, text=True)
    assert again.returncode == 2 and f"--keep: {tmp_path} is not empty" in again.stderr


@pytest.mark.parametrize(
    "sent", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)]
)
def test_a_demonstration_that_is_ended_while_its_nodes_start_leaves_no_process(tmp_path, sent):
    demo = psutil.Popen([*COMMAND, "--keep", str(tmp_path / "kept")], stderr=subprocess.DEVNULL)
    while len(begun := demo.children(recursive=True)) < 3:
        assert demo.poll() is None
        time.sleep(0.1)
    demo.send_signal(sent)
    code = demo.wait()
    assert code == 143 if sent == signal.SIGTERM else code != 0
    _, alive = psutil.wait_procs(begun, timeout=60)
    assert alive == []


def test_too_few_passages_are_refused_before_anything_starts():
    few = [*COMMAND[:2], "--passages", "20"]
    done = subprocess.run(few, capture_output=True, text=True)
    assert done.returncode == 2 and "--passages: expected at least 100, found 20" in done.stderr
