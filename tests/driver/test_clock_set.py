"""A clock that jumps by an hour while a job runs, and between jobs."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from killed_jobs import REPOSITORY, durable_bytes, num_records
from recipes import dense

from raypipe.cli.main import run

pytestmark = [pytest.mark.slow]

HOUR = 3600.0
CLOCK = """
import os, time

def shown():
    return time.clock_gettime(time.CLOCK_REALTIME) + float(open(os.environ["SET_BY"]).read())

time.time = shown
"""


class Clock:
    """What child processes, this one and the file system take for the time."""

    def __init__(self, folder, monkeypatch):
        (folder / "sitecustomize.py").write_text(CLOCK)
        self._by, self.seconds = folder / "set", 0.0
        self.environment = {**os.environ, "PYTHONPATH": str(folder), "SET_BY": str(self._by)}
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() + self.seconds)
        self.set(0.0)

    def set(self, seconds):
        beside = self._by.with_name("new")
        beside.write_text(str(seconds))
        beside.rename(self._by)
        self.seconds = seconds


def reindex(folder, out):
    """The words of the command."""
    return ["reindex", str(folder / "recipe.yaml"), "--out", str(out)]


def begun(folder, out, environment):
    """That command in a process of its own."""
    with open(f"{out}.log", "ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "raypipe", *reindex(folder, out)],
            cwd=REPOSITORY, stdout=log, stderr=log, env=environment,
        )  # fmt: skip


def write(folder, model):
    (folder / "queries.tsv").write_text("q1\tthe lease\nq2\tshard 7\n")
    recipe = dense(folder, model, name="clock", depth=5, threads=1, shard_rows=1)
    (folder / "recipe.yaml").write_text(recipe)
    passages(folder, 40)


def passages(folder, number):
    lines = [f"{row}\tthe lease of shard {row % number} ranks\n" for row in range(40)]
    (folder / "passages.tsv").write_text("".join(lines))


def written(out, seconds):
    """All files were written so much later than they were."""
    for path in out.rglob("*"):
        if path.is_file():
            found = path.stat().st_mtime
            os.utime(path, (found + seconds, found + seconds))


def results(out):
    """But for what knows the times of inputs, and what a generation says of its own."""
    left = ("count@collection", "stores/generations", "stores/nonce", "stores/gc")
    return {n: b for n, b in durable_bytes(out).items() if not any(word in n for word in left)}


@pytest.fixture(scope="module")
def calm(tiny_model, tmp_path_factory):
    """The results of two generations under a clock that nobody sets."""
    folder = tmp_path_factory.mktemp("calm")
    write(folder, tiny_model)
    assert run(reindex(folder, folder / "out"))[0] == 0
    passages(folder, 39)
    assert run(reindex(folder, folder / "out"))[0] == 0
    return results(folder / "out")


@pytest.mark.fault(
    52, "an hour on or back during a job, at its successor, at a second generation, gc and `status`"
)
@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_a_clock_that_is_set_changes_nothing(
    calm, tiny_model, tmp_path, monkeypatch, raypipe_here, jump
):
    out, again = tmp_path / "out", reindex(tmp_path, tmp_path / "out")
    write(tmp_path, tiny_model)
    clock = Clock(tmp_path, monkeypatch)
    first = begun(tmp_path, out, clock.environment)
    while num_records(out) < 3:
        assert first.poll() is None, Path(f"{out}.log").read_text()
        time.sleep(0.01)
    clock.set(jump)
    assert raypipe_here("status", out).returncode == 0
    refused = raypipe_here(*again)
    assert refused.returncode == 4 and "is working here" in refused.stderr
    first.kill()
    assert first.wait() == -9
    clock.set(0.0)
    written(out, jump)
    found = raypipe_here("status", out)
    assert found.returncode == 3 and "the same command resumes" in found.stdout
    assert raypipe_here(*again).returncode == 0
    clock.set(-jump)
    passages(tmp_path, 39)
    assert raypipe_here(*again).returncode == 0
    before = results(out)
    assert before == calm
    clock.set(jump)
    for verb in ("status", "verify", "gc"):
        done = raypipe_here(verb, out, *(["--yes"] if verb == "gc" else []))
        assert done.returncode == 0, done.stdout + done.stderr
    assert results(out) == before
    told = json.loads(raypipe_here("history", out, "--json").stdout)
    assert [one["number"] for one in told["generations"]] == [1, 2], told
