"""Rows that kill or have no value: found, quarantined, and the rest is computed."""

import json
import math
import os
import random
import signal
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors.torch import load_file, save_file
from watchers import Silent

from raypipe.cluster.backend import Done, Failed, Task
from raypipe.cluster.bad_rows import Case
from raypipe.cluster.loop import Limits, run
from raypipe.cluster.simulated import SimulatedBackend, SimulatedLedger, World
from raypipe.config import load_recipe
from raypipe.driver.pipeline import Options, run_pipeline
from raypipe.errors import IncompleteError, LimitError, RowsFailed
from raypipe.evaluation.run_files.runs import read_run
from raypipe.stages.stage import Needs, Payload
from raypipe.storage.ledger import Ledger
from raypipe.storage.posix import PosixStorage
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec


def simulate(world, num_shards=6, rows=64, seed=0, **limits):
    shards = [Shard(i, i * rows, (i + 1) * rows) for i in range(num_shards)]
    ledger = SimulatedLedger(shards)
    backend = SimulatedBackend(world, ledger, seed=seed)
    task = Task(SimpleNamespace(skips_rows=True, needs=Needs()), ledger)
    report = run(task, backend, Limits(num_actors=3, **limits))
    return ledger, report


@pytest.mark.parametrize("seed", range(25))
def test_each_killing_row_is_found_after_few_deaths_and_the_rest_is_committed(seed):
    rng = random.Random(seed)
    batch = rng.choice([2, 3, 8, 16, 64])
    # One in a shard of its own, and two together.
    poison = {rng.randrange(64)} | set(rng.sample(range(128, 192), 2))
    world = World(num_actors=3, poison=frozenset(poison), batch_rows=batch)
    ledger, report = simulate(world, seed=seed)
    assert {row for rows in ledger.skipped.values() for row in rows} == poison
    assert all(count == 1 for count in ledger.commits.values()) and len(ledger.commits) == 6
    # Two deaths before anything is known of a shard, a halving each, and one alone once more.
    bound = math.ceil(math.log2(batch)) + (batch >= 4)
    assert report.num_lost <= 2 * (2 + bound) + (1 + bound)
    assert 2 + bound <= 3 * math.log2(batch)
    found = {n["row"]: n["reason"] for n in ledger.notes if n["event"] == "quarantined"}
    assert found.keys() == poison and all("died" in reason for reason in found.values())


@pytest.mark.parametrize("seed", range(15))
def test_preemption_and_stalls_convict_nobody(seed):
    world = World(num_actors=3, preempted=0.3, stalled=0.05, crashed=0.05)
    ledger, _ = simulate(world, num_shards=30, seed=seed, max_attempts=20)
    assert all(rows == () for rows in ledger.skipped.values())
    assert len(ledger.commits) == 30


def test_a_death_of_another_cause_during_a_probe_convicts_nobody():
    """The worker dies over row 5, but once: the second try alone survives."""
    case = Case()
    shard = Shard(0, 0, 16)
    assert case.died((), "x") is None and case.careful
    assert case.died(tuple(range(16)), "x") is None
    while len(case.suspects) > 1:
        kept = set(range(16)) - set(case.skip(shard))
        assert case.died(tuple(sorted(kept)), "x") is None
    assert len(set(range(16)) - set(case.skip(shard))) == 1
    assert not case.survived(), "no suspect is left, and nothing is explained"
    assert case.bad == {}


def test_a_stage_that_names_no_new_row_is_not_asked_for_ever():
    class Naming(SimulatedBackend):
        def wait(self, seconds):
            events = super().wait(seconds)
            return [
                Failed(e.worker, e.shard, RowsFailed([3], "always")) if isinstance(e, Done) else e
                for e in events
            ]

    ledger = SimulatedLedger([Shard(0, 0, 64)])
    task = Task(SimpleNamespace(skips_rows=True, needs=Needs()), ledger)
    with pytest.raises(IncompleteError, match="failed 3 times"):
        run(task, Naming(World(num_actors=1), ledger), Limits())


def test_a_row_without_a_value_found_during_a_probe_is_suspected_no_more():
    case = Case(careful=True)
    shard = Shard(0, 0, 8)
    case.died(tuple(range(8)), "x")
    case.skip(shard)
    case.exclude({0: "not finite", 5: "not finite"})
    assert case.suspects == (1, 2, 3, 4, 6, 7)
    assert not {0, 5} & (set(range(8)) - set(case.skip(shard)))


def test_a_stage_that_skips_no_rows_fails_as_before():
    world = World(num_actors=3, poison=frozenset({5}))
    ledger = SimulatedLedger([Shard(0, 0, 64)])
    task = Task(SimpleNamespace(needs=Needs()), ledger)
    with pytest.raises(IncompleteError, match="failed 3 times"):
        run(task, SimulatedBackend(world, ledger), Limits())


RECIPE = """
format: 1
name: poison
collection: {{format: msmarco-v1, input: {files}/passages.tsv}}
queries: {{test: {{file: {files}/queries.test.tsv}}}}
models: {{tiny: {{path: {encoder}}}, mono: {{path: {mono}}}}}
stages:
  embeddings: {{do: encode, model: tiny}}
  dense: {{do: search, index: embeddings, depth: 300}}
  mono: {{do: score, run: dense, model: mono, k0: 300}}
resources: {{backend: inline, device: cpu, shard_tokens: 3000, max_failed_rows: {limit}}}
"""


def spoil(folder, words_name):
    """The letter z has no finite embedding."""
    weights = load_file(folder / "model.safetensors")
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    for piece in ("zebra", "z", "##z"):
        weights[words_name][vocabulary[piece]] = float("inf")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.fixture
def spoilt(tiny, small_files, tmp_path):
    encoder = tiny.make_tiny_bert(tmp_path / "encoder")
    mono = tiny.make_tiny_reranker(tmp_path / "mono")
    spoil(encoder, "embeddings.word_embeddings.weight")
    lines = (small_files / "passages.tsv").read_text().splitlines()[:60]
    files = tmp_path / "files"
    files.mkdir()
    texts = [line.split("\t", 1) for line in lines]
    texts = [(i, text.lower().replace("z", "s")) for i, text in texts]
    texts[7], texts[41] = (texts[7][0], "a zebra"), (texts[41][0], "zz and a shard")
    (files / "passages.tsv").write_text("".join(f"{i}\t{text}\n" for i, text in texts))
    queries = (small_files / "queries.test.tsv").read_text().lower().replace("z", "s")
    (files / "queries.test.tsv").write_text("".join(queries.splitlines(keepends=True)[:4]))
    spoil(mono, "bert.embeddings.word_embeddings.weight")

    def go(limit):
        text = RECIPE.format(files=files, encoder=encoder, mono=mono, limit=limit)
        recipe = load_recipe(text, source="poison")
        return run_pipeline(recipe, tmp_path / "work", Options(), watcher=Silent()).summary

    return SimpleNamespace(go=go, work=tmp_path / "work", ids=[texts[7][0], texts[41][0]])


def test_vectors_and_scores_without_a_value_are_counted_and_never_ranked(spoilt):
    with pytest.raises(LimitError, match=r"2 rows could not be computed.*\[7, 41\]"):
        spoilt.go(0)
    assert json.loads((spoilt.work / "summary.json").read_text())["exit"] == 5
    summary = spoilt.go(2)
    encoded = summary["stages"]["embeddings"]
    assert encoded["shards"]["quarantined"] == 2
    assert encoded["coverage"] == pytest.approx(58 / 60)
    assert encoded["shards"]["reused"] == encoded["shards"]["planned"], "nothing is lost"
    for system in ("dense", "mono"):
        table = read_run(spoilt.work / "runs" / "test" / f"{system}.trec")
        assert table.num_rows == 4 * 58
        assert not set(spoilt.ids) & set(table["passage_id"].to_pylist())


def test_candidates_without_a_score_leave_the_run(spoilt):
    """The mono alone is spoilt: its two passages are in the run that it reranks."""
    text = (spoilt.work.parent / "files" / "passages.tsv").read_text()
    names = [line.split("\t")[0] for line in text.splitlines()]
    run_file = spoilt.work.parent / "files" / "run.trec"
    queries = (spoilt.work.parent / "files" / "queries.test.tsv").read_text().splitlines()
    lines = [
        f"{query.split(chr(9))[0]} Q0 {name} {rank} {-rank} x\n"
        for query in queries
        for rank, name in enumerate(names, 1)
    ]
    run_file.write_text("".join(lines))
    recipe = f"""
format: 1
name: poison
collection: {{format: msmarco-v1, input: {spoilt.work.parent}/files/passages.tsv}}
queries: {{test: {{file: {spoilt.work.parent}/files/queries.test.tsv}}}}
models: {{mono: {{path: {spoilt.work.parent}/mono}}}}
stages:
  first: {{do: read, runs: {{test: {run_file}}}}}
  mono: {{do: score, run: first, model: mono, k0: 50}}
resources: {{backend: inline, device: cpu, shard_tokens: 3000, max_failed_rows: 8}}
"""
    out = spoilt.work.parent / "scored"
    summary = run_pipeline(
        load_recipe(recipe, source="p"), out, Options(), watcher=Silent()
    ).summary
    assert summary["stages"]["scores@mono.test.1"]["shards"]["quarantined"] == 8
    table = read_run(out / "runs" / "test" / "mono.trec")
    assert table.num_rows == 4 * 58
    assert not set(spoilt.ids) & set(table["passage_id"].to_pylist())


@dataclass
class Killing:
    """Writes its rows; dies over some of them."""

    poison: frozenset[int]
    skips_rows = True
    needs = Needs()
    spec = StageSpec("killing", 1)

    def shards(self, sizing):
        return [Shard(0, 0, 40), Shard(1, 40, 80)]

    def open(self, site):
        self._scratch = site.scratch
        return {}

    def run(self, shard, skip, beat):
        kept = [row for row in range(shard.start, shard.stop) if row not in set(skip)]
        for start in range(0, len(kept), 8):
            beat(kept[start : start + 8])
            if self.poison & set(kept[start : start + 8]):
                os.kill(os.getpid(), signal.SIGKILL)
        path = self._scratch / f"{shard.index}.npy"
        np.save(path, np.array(kept))
        return Payload(path, {"rows": shard.num_rows})


@pytest.mark.ray
@pytest.mark.timeout(120)
def test_on_ray_a_row_that_kills_its_worker_is_found_and_the_rest_finishes(tmp_path):
    from raypipe.cluster import ray_start
    from raypipe.cluster.ray_pool import RayBackend

    storage = PosixStorage(tmp_path / "stores")
    stage = Killing(frozenset({53}))
    ledger = Ledger(storage, "killing", stage.spec, stage.shards(None))
    local = ray_start.start_local(num_cpus=2, num_gpus=0)
    backend = RayBackend(local=local)
    try:
        report = run(Task(stage, ledger), backend, Limits(num_actors=2))
    finally:
        backend.close()
    assert report.num_lost <= 2 + 3 + 1
    with pytest.raises(LimitError, match=r"first rows \[53\]"):
        ledger.publish()
    manifest = ledger.publish(max_failed_rows=1)
    assert manifest.skipped_rows == (53,) and manifest.coverage == 1 - 1 / 80
    rows = [np.load(storage.local(record.sha256)) for record in manifest.records]
    assert np.concatenate(rows).tolist() == [row for row in range(80) if row != 53]
    events = (tmp_path / "stores" / ledger.folder / "attempts.jsonl").read_text().splitlines()
    kept = pq.read_table(tmp_path / "stores" / ledger.folder / "quarantine.parquet").to_pylist()
    assert [row["row"] for row in kept] == [53] and "died" in kept[0]["reason"]
    (told,) = [json.loads(e) for e in events if '"quarantined"' in e]
    assert told["row"] == 53 and "died" in told["reason"]
    assert not list((tmp_path / "stores").rglob("*.rows"))
