"""The demonstration of a cluster, in small, as its user starts it."""

import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.ray, pytest.mark.timeout(1200)]
JOBS = Path(__file__).parent.parent / "jobs"


def test_a_cluster_that_loses_and_gains_a_node_writes_the_same_payloads_and_is_gone(tmp_path):
    command = [sys.executable, str(JOBS / "demo_cluster.py"), "--passages", "120"]
    done = subprocess.run([*command, "--keep", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^payloads: \d+ in each job, every SHA-256 the same", done.stdout, re.M)
    for name in ("loses a node", "gains a node"):
        assert f"the job that {name}: " in done.stdout
    assert len(re.findall(r"begun and given up: \d+, with \d+ rows$", done.stdout, re.M)) == 2
    left = [one for one in psutil.process_iter(["cmdline"]) if str(tmp_path) in str(one.info)]
    assert left == []
