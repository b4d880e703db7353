"""Kills of a real job on Ray: the bytes are those of a calm job without Ray."""

import json
import random
import signal
import time
from pathlib import Path

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
from killed_jobs import done_here, durable_bytes, killed_until_complete, num_records, start
from patience import await_ends

pytestmark = [pytest.mark.ray, pytest.mark.slow]

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


@pytest.mark.fault(
    5, "4 jobs by hand, any process of Ray killed 2 to 5 times in each: the bytes of a calm one"
)
@pytest.mark.fault(
    2, "the driver killed as well: no more shards computed twice than were in flight"
)
@pytest.mark.fault(
    1, "a worker of a real job killed: its history has no problem, its bytes are a calm job's"
)
@pytest.mark.parametrize(("actors", "kinds"), JOBS)
def test_a_killed_job_leaves_the_bytes_of_a_calm_one(recipe, tmp_path, actors, kinds):
    rng = random.Random(SEED + actors)
    print(f"seed {SEED + actors}")
    calm = tmp_path / "calm"
    done_here(recipe, calm, actors)
    total = num_records(calm)
    out, told = tmp_path / "killed", recording(tmp_path / "history")
    kills, seen = killed_until_complete(recipe, out, actors, kinds, rng, total, told)
    assert len(kills) == len(kinds), "each met a living process"
    assert sum(at < total for at in kills) >= (len(kills) + 1) // 2, "while shards were missing"
    assert durable_bytes(out) == durable_bytes(calm)
    assert not [path for path in out.rglob("tmp/**/*") if path.is_file()]
    await_ends(seen)
    history = History.read(tmp_path / "history")
    assert problems(history, *planned_and_published(out / "stores")) == []
    assert redone(history) <= in_flight_when_killed(history) <= actors * len(kills)


@pytest.mark.fault(
    2,
    "3 jobs that copy, killed 3 or 4 times each, end with the bytes of builds from nothing",
)
@pytest.mark.long
@pytest.mark.parametrize(
    ("actors", "kinds", "seed"), [(2, "wdw", 1), (1, "dcd", 2), (3, "wwcd", 3)]
)
def test_a_killed_job_over_a_changed_collection_copies_to_the_bytes_of_one_from_nothing(
    recipe, tmp_path, actors, kinds, seed
):
    rng = random.Random(seed)
    text = recipe.read_text()
    (passages,) = (line.split("input: ")[1].rstrip("}") for line in text.splitlines()[3:4])
    lines = Path(passages).read_text().splitlines(keepends=True)
    own = tmp_path / "passages.tsv"
    own.write_text("".join(lines))
    mine = tmp_path / "recipe.yaml"
    mine.write_text(text.replace(passages, str(own)))
    out, told = tmp_path / "killed", recording(tmp_path / "history")
    assert start(mine, out, actors, "inline", **told).wait() == 0
    before = num_records(out)
    for number in range(5):
        lines.insert(rng.randrange(len(lines)), f"new{number}\ta new passage {number}\n")
        del lines[rng.randrange(len(lines))]
    own.write_text("".join(lines))
    calm = tmp_path / "calm"
    done_here(mine, calm, actors)
    total = before + num_records(calm)
    kills, _ = killed_until_complete(mine, out, actors, kinds, rng, total, told)
    assert len(kills) == len(kinds)
    found, expected = durable_bytes(out), durable_bytes(calm)
    same = {name for name in expected if "count@collection" not in name}  # it knows files' times
    assert {name: found.get(name) for name in same} == {name: expected[name] for name in same}
    copied = [event.get("copied", 0) for event in attempts_of(out, "embeddings")]
    lost = len(kills) * actors * max(copied)  # in flight at a kill: committed, but not told
    assert len(lines) - 6 - lost <= sum(copied) <= 2 * len(lines)
    history = History.read(tmp_path / "history")
    assert problems(history, *planned_and_published(out / "stores")) == []


def attempts_of(out, store):
    paths = (out / "stores" / store).glob("*/attempts.jsonl")
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


@pytest.mark.fault(6, "a job on Ray: exit 143, 0 unfinished files, 0 processes left, then resumed")
@pytest.mark.long
def test_a_job_that_is_told_to_stop_leaves_nothing_unfinished_and_goes_on(recipe, tmp_path):
    calm, out = tmp_path / "calm", tmp_path / "stopped"
    done_here(recipe, calm, 2)
    total = num_records(calm)
    driver = start(recipe, out, 2, "ray")
    while num_records(out) < total // 3:
        assert driver.poll() is None, (tmp_path / "stopped.log").read_text()
        time.sleep(0.01)
    below = psutil.Process(driver.pid).children(recursive=True)
    driver.send_signal(signal.SIGTERM)
    assert driver.wait() == 128 + signal.SIGTERM and 0 < num_records(out) < total
    await_ends(below)
    assert not [path for path in out.rglob("tmp/**/*") if path.is_file()]
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["status"], summary["exit"]) == ("failed", 143)
    assert start(recipe, out, 2, "ray").wait() == 0
    assert durable_bytes(out) == durable_bytes(calm)
