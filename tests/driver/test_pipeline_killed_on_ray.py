"""Kills of a real job on Ray: the bytes are those of a calm job without Ray."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

pytestmark = [pytest.mark.ray, pytest.mark.timeout(420)]

REPOSITORY = Path(__file__).parent.parent.parent
SEED = 20261121
RECIPE = """
format: 1
name: kills
collection: {{format: msmarco-v1, input: {files}/passages.tsv}}
queries:
  test: {{file: {files}/queries.test.tsv}}
models:
  tiny: {{path: {encoder}}}
  mono: {{path: {mono}}}
  duo: {{path: {duo}}}
stages:
  embeddings: {{do: encode, model: tiny}}
  dense: {{do: search, index: embeddings, depth: 20}}
  mono: {{do: score, run: dense, model: mono, k0: 4}}
  duo: {{do: score, run: mono, model: duo, k1: 3}}
  duo-sum: {{do: aggregate, pairs: duo, method: sum}}
resources: {{device: cpu, threads: 1, shard_tokens: 500, shard_rows: 50, shard_queries: 10}}
"""


@pytest.fixture(scope="module")
def recipe(small_files, tiny_model, tiny_mono, tiny_duo, tmp_path_factory):
    path = tmp_path_factory.mktemp("kills") / "recipe.yaml"
    models = {"encoder": tiny_model, "mono": tiny_mono, "duo": tiny_duo}
    path.write_text(RECIPE.format(files=small_files, **models))
    return path


def start(recipe, out, actors, backend):
    command = [sys.executable, "-m", "raypipe", "pipeline", recipe, "--out", out]
    command += [f"resources.actors={actors}", f"resources.backend={backend}"]
    log = open(f"{out}.log", "ab")
    return subprocess.Popen([str(part) for part in command], cwd=REPOSITORY, stdout=log, stderr=log)


def num_records(out):
    while True:
        try:
            return sum(1 for _ in (out / "stores").glob("*/*/shards/*.json"))
        except FileNotFoundError:
            continue  # a folder of the living job went away under the listing


def durable_bytes(out):
    """Every file that readers may use; not logs of attempts, leases and refs."""
    kept = {}
    for folder in ("stores", "runs"):
        for path in (out / folder).rglob("*"):
            name = str(path.relative_to(out))
            told = ("attempts.jsonl", "lease.json", "refs/")
            if path.is_file() and not any(word in name for word in told):
                kept[name] = path.read_bytes()
    return kept


def wait_for_one_of(processes, seconds):
    deadline = time.monotonic() + seconds
    living = [p for p in processes if p.is_running()]
    while living and time.monotonic() < deadline:
        time.sleep(0.1)
        living = [p for p in living if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
    return living


def killed(process):
    """Whether it still computed; one that has ended, a zombie, was not killed."""
    try:
        process.suspend()  # once it stands still it cannot end by itself
        while (status := process.status()) != psutil.STATUS_STOPPED:
            if status == psutil.STATUS_ZOMBIE:
                return False
            time.sleep(0.01)
        process.kill()
    except psutil.NoSuchProcess:
        return False
    return True


JOBS = [
    pytest.param(2, "cdc"),
    pytest.param(2, "cccdccd", marks=pytest.mark.long),
    pytest.param(1, "cdccdcc", marks=pytest.mark.long),
    pytest.param(3, "ccdccc", marks=pytest.mark.long),
]


@pytest.mark.parametrize(("actors", "kinds"), JOBS)
def test_a_killed_job_leaves_the_bytes_of_a_calm_one(recipe, tmp_path, actors, kinds):
    """`d` kills the driver, `c` a random process below it, at a random share of what is left."""
    rng = random.Random(SEED + actors)
    calm = tmp_path / "calm"
    assert start(recipe, calm, actors, "inline").wait() == 0
    total = num_records(calm)
    out = tmp_path / "killed"
    driver = start(recipe, out, actors, "ray")
    seen: set[psutil.Process] = set()
    kills = []
    for number, kind in enumerate(kinds):
        done = num_records(out)
        target = done + rng.uniform(0, 0.8) * (total - done) / (len(kinds) - number)
        while num_records(out) < target and driver.poll() is None:
            time.sleep(0.005)
        while len(kills) == number:
            if driver.poll() is not None:
                done = num_records(out)
                driver = start(recipe, out, actors, "ray")
                while num_records(out) <= done < total and driver.poll() is None:
                    time.sleep(0.005)
            above = psutil.Process(driver.pid)
            below = above.children(recursive=True)
            seen.update(below)
            at = num_records(out)
            if not below and at < total:
                continue  # it ended in between
            victim = rng.choice(below) if kind == "c" and below else above
            if killed(victim):
                kills.append(at)
                print(f"seed {SEED + actors}, kill {number} {kind}: {victim} at {at}/{total}")
        if victim == above:
            assert driver.wait() == -signal.SIGKILL
            left = wait_for_one_of(below, 10)
            assert not left, f"still running 10 s after the driver: {left}"
    while driver.wait() != 0:
        driver = start(recipe, out, actors, "ray")
    assert len(kills) == len(kinds), "each met a living process"
    assert sum(at < total for at in kills) >= (len(kills) + 1) // 2, "while shards were missing"
    assert durable_bytes(out) == durable_bytes(calm)
    assert not [path for path in out.rglob("tmp/**/*") if path.is_file()]
    assert not wait_for_one_of(seen, 10)
