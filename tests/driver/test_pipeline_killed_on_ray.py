"""Kills of a real job on Ray: the bytes are those of a calm job without Ray."""

import random
import signal
import time

import psutil
import pytest
from histories import (
    History,
    in_flight_when_killed,
    planned_and_published,
    problems,
    recording,
    redone,
)
from killed_jobs import durable_bytes, is_worker, killed, num_records, start, still_alive

pytestmark = [pytest.mark.ray, pytest.mark.timeout(420)]

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


JOBS = [
    pytest.param(2, "wd"),
    pytest.param(2, "cdc", marks=pytest.mark.long),
    pytest.param(2, "cccdccd", marks=pytest.mark.long),
    pytest.param(1, "cdccdcc", marks=pytest.mark.long),
    pytest.param(3, "ccdccc", marks=pytest.mark.long),
]


@pytest.mark.parametrize(("actors", "kinds"), JOBS)
def test_a_killed_job_leaves_the_bytes_of_a_calm_one(recipe, tmp_path, actors, kinds):
    """`d` kills the driver, `w` a worker, `c` any process below, at a random share of the rest."""
    rng = random.Random(SEED + actors)
    calm = tmp_path / "calm"
    assert start(recipe, calm, actors, "inline").wait() == 0
    total = num_records(calm)
    out, told = tmp_path / "killed", recording(tmp_path / "history")
    driver = start(recipe, out, actors, "ray", **told)
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
                driver = start(recipe, out, actors, "ray", **told)
                while num_records(out) <= done < total and driver.poll() is None:
                    time.sleep(0.005)
            above = psutil.Process(driver.pid)
            below = above.children(recursive=True)
            seen.update(below)
            at = num_records(out)
            if kind == "w" and not (below := [one for one in below if is_worker(one)]):
                continue  # none has started yet
            if not below and at < total:
                continue  # it ended in between
            victim = rng.choice(below) if kind != "d" and below else above
            if killed(victim):
                kills.append(at)
                print(f"seed {SEED + actors}, kill {number} {kind}: {victim} at {at}/{total}")
        if victim == above:
            assert driver.wait() == -signal.SIGKILL
            left = still_alive(below, 10)
            assert not left, f"still running 10 s after the driver: {left}"
    while driver.wait() != 0:
        driver = start(recipe, out, actors, "ray", **told)
    assert len(kills) == len(kinds), "each met a living process"
    assert sum(at < total for at in kills) >= (len(kills) + 1) // 2, "while shards were missing"
    assert durable_bytes(out) == durable_bytes(calm)
    assert not [path for path in out.rglob("tmp/**/*") if path.is_file()]
    assert not still_alive(seen, 10)
    history = History.read(tmp_path / "history")
    assert problems(history, *planned_and_published(out / "stores")) == []
    assert redone(history) <= in_flight_when_killed(history) <= actors * len(kills)
