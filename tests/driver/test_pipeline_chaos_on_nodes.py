"""Ten minutes of kills on a cluster of nodes: nothing is lost, and the bytes are the calm ones."""

import json
import os
import random
import shutil
import signal
import time
from collections import Counter

import psutil
import pytest
from cluster_of_nodes import Nodes, end
from histories import History, in_flight_when_killed, planned_and_published, problems, recording
from histories import redone as num_redone
from killed_jobs import durable_bytes, is_worker, killed, num_records, start

pytestmark = [pytest.mark.ray, pytest.mark.jvm, pytest.mark.long, pytest.mark.timeout(3600)]

SECONDS = float(os.environ.get("RAYPIPE_CHAOS_SECONDS", "600"))
SEED = int(os.environ.get("RAYPIPE_CHAOS_SEED", "20261122"))
NODES = 2
RECIPE = """
format: 1
name: chaos
collection: {{format: msmarco-v1, input: {files}/passages.tsv}}
queries:
  test: {{file: {files}/queries.test.tsv, qrels: {files}/qrels.test.txt}}
models:
  tiny: {{path: {encoder}}}
  mono: {{path: {mono}}}
  duo: {{path: {duo}}}
stages:
  lucene: {{do: index}}
  bm25: {{do: search, index: lucene, depth: 20}}
  embeddings: {{do: encode, model: tiny}}
  dense: {{do: search, index: embeddings, depth: 20}}
  fused: {{do: fuse, runs: [bm25, dense], method: rrf, depth: 20}}
  mono: {{do: score, run: fused, model: mono, k0: 4}}
  duo: {{do: score, run: mono, model: duo, k1: 3}}
  duo-sum: {{do: aggregate, pairs: duo, method: sum}}
evaluate:
  measures: [nDCG@10]
  baseline: bm25
  topics: the test queries
  relevance: grade 1
resources: {{device: cpu, threads: 1, shard_tokens: 500, shard_rows: 30, shard_queries: 5}}
"""


@pytest.fixture(scope="module")
def recipe(small_files, tiny_model, tiny_mono, tiny_duo, tmp_path_factory):
    path = tmp_path_factory.mktemp("chaos") / "recipe.yaml"
    models = {"encoder": tiny_model, "mono": tiny_mono, "duo": tiny_duo}
    path.write_text(RECIPE.format(files=small_files, **models))
    return path


@pytest.fixture
def nodes(tmp_path):
    """Their processes write their histories where `history` points to, another for each job."""
    started = Nodes(NODES, recording(tmp_path / "history"))
    yield started
    started.close()


def point(link, folder):
    if link.is_dir() and not link.is_symlink():
        link.rmdir()
    link.unlink(missing_ok=True)
    link.symlink_to(folder)


def kill_one(kind, nodes, driver, rng):
    """Whether something living was killed: an actor, the driver, a raylet or a whole node."""
    if kind == "actor":
        actors = [one for one in nodes.below() if is_worker(one)]
        return bool(actors) and killed(rng.choice(actors))
    if kind == "driver":
        alive = driver.poll() is None
        end(psutil.Process(driver.pid)) if alive else None
        return alive and driver.wait() == -signal.SIGKILL
    return nodes.kill_raylet(rng) if kind == "raylet" else nodes.kill_node(rng)


@pytest.mark.fault(
    4, "ten minutes of killed nodes, raylets, workers and drivers: nothing lost, nothing twice"
)
@pytest.mark.fault(
    1, "kills over all stages on several nodes: every history proved, all bytes a calm job's"
)
def test_no_kill_on_several_nodes_loses_or_doubles_a_shard(recipe, tmp_path, nodes, capsys):
    """Invocations follow each other until the time is over; each is proved when it has ended."""
    rng = random.Random(SEED)
    calm = tmp_path / "calm"
    assert start(recipe, calm, NODES, "inline").wait() == 0, (tmp_path / "calm.log").read_text()
    expected, total = durable_bytes(calm), num_records(calm)
    kills, redone, in_flight, starts, invocations = Counter(), 0, 0, 0, 0
    began = time.monotonic()
    while time.monotonic() - began < SECONDS:
        out = tmp_path / f"out{invocations}"
        own = tmp_path / f"history{invocations}"
        own.mkdir()
        point(tmp_path / "history", own)
        told = nodes.environment
        mine, driver = 0, None
        while driver is None or driver.wait() != 0:
            driver = start(recipe, out, NODES, "ray", **told)
            starts += 1
            while driver.poll() is None:
                at = num_records(out) + rng.randint(1, 40)  # it gets on between two kills
                while driver.poll() is None and num_records(out) < min(at, total):
                    time.sleep(0.05)
                kind = rng.choice(["actor", "actor", "driver", "raylet", "node"])
                unfinished = num_records(out) < total
                if unfinished and driver.poll() is None and kill_one(kind, nodes, driver, rng):
                    kills[kind] += 1
                    mine += 1
        history = History.read(own)
        assert problems(history, *planned_and_published(out / "stores")) == []
        assert num_redone(history) <= in_flight_when_killed(history) <= NODES * mine
        assert durable_bytes(out) == expected
        redone += num_redone(history)
        in_flight += in_flight_when_killed(history)
        invocations += 1
        shutil.rmtree(out)
    told = {"seed": SEED, "invocations": invocations, "starts": starts, "kills": dict(kills)}
    told |= {"shards": invocations * total, "in flight when killed": in_flight, "redone": redone}
    with capsys.disabled():
        print("\n" + json.dumps(told))
    assert all(kills[kind] for kind in ("actor", "driver", "raylet", "node"))
