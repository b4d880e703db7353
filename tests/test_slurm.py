"""jobs/raypipe.sbatch on the Slurm of this machine, where one answers."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from killed_jobs import durable_bytes, num_records, start
from recipes import dense, write_files

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "jobs" / "raypipe.sbatch"
SINFO = shutil.which("sinfo")
ANSWERS = SINFO and subprocess.run([SINFO, "-h"], capture_output=True).returncode == 0


def test_a_slurm_job_without_a_command_says_how_it_is_submitted():
    done = subprocess.run(["bash", SCRIPT], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "sbatch raypipe.sbatch pipeline recipe.yaml --out" in done.stderr


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.skipif(not ANSWERS, reason="no Slurm answers here")
def test_a_slurm_job_told_to_stop_goes_on_when_it_is_submitted_again(
    tiny_model, tmp_path, monkeypatch
):
    here = Path(sys.executable).parent
    monkeypatch.setenv("PATH", f"{here}{os.pathsep}{os.environ['PATH']}")
    write_files(tmp_path, ["the lease of a shard ranks a zebra"] * 60)
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(dense(tmp_path, tiny_model, threads=1, shard_rows=1))
    assert start(recipe, tmp_path / "calm", 1, "inline").wait() == 0
    out, log = tmp_path / "out", tmp_path / "log.txt"
    nodes = len(subprocess.run([SINFO, "-hN"], capture_output=True, text=True).stdout.splitlines())
    words = ["sbatch", "--parsable", "--nodes", str(min(nodes, 2)), "--cpus-per-task", "1"]
    words += ["--output", log, SCRIPT, "pipeline", recipe, "--out", out, "resources.backend=ray"]
    job = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
    end = time.monotonic() + 300
    while num_records(out) < 8:
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.1)
    subprocess.run(["scancel", "--batch", "--signal", "TERM", job], check=True)
    state = ["squeue", "--noheader", "--job", job]
    while subprocess.run(state, check=True, capture_output=True, text=True).stdout.strip():
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.2)
    assert "interrupted; the same command resumes" in log.read_text()
    assert not (out / "results.json").exists()
    subprocess.run([words[0], "--wait", *words[1:]], check=True, capture_output=True)
    assert durable_bytes(out) == durable_bytes(tmp_path / "calm")
