"""Score and aggregate stages of a recipe: what is computed, kept, reused and ranked."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from raypipe import schema
from raypipe.config import load_recipe
from raypipe.driver.pipeline import Options, run_pipeline
from raypipe.driver.upkeep.export import export
from raypipe.errors import IncompleteError, InputError, RefusedError
from raypipe.models.folder.loading import open_tokenizer, resolve_model
from raypipe.models.scorer import load_scorer
from raypipe.text.pairs import TextSlice
from raypipe.text.tokenize import tokenize_batch

RECIPE = """
format: 1
name: reranking
collection: {{format: msmarco-v1, input: {files}/passages.tsv}}
queries: {{test: {{file: {files}/queries.test.tsv, qrels: {files}/qrels.test.txt}}}}
models: {{minilm: {{path: {encoder}}}, mono: {{path: {mono}}}, duo: {{path: {duo}}}}}
stages:
  first: {{do: read, runs: {{test: {run}}}}}
  mono: {{do: score, run: first, model: mono, k0: 12}}
  duo: {{do: score, run: mono, model: duo, k1: 4}}
  duo-sum: {{do: aggregate, pairs: duo, method: sum}}
  duo-min: {{do: aggregate, pairs: duo, method: min, k1: 3, tail: drop}}
  duo-sample: {{do: aggregate, pairs: duo, method: sample, m: 2, seed: 5}}
evaluate: {{measures: ["nDCG@10", "R@20"], baseline: first}}
resources: {{backend: inline, device: cpu, shard_tokens: 6000, shard_queries: 7}}
stores: {stores}
"""
DEPTH = 20


class Silent:
    def began(self, store, report): ...

    def advanced(self, store, report): ...

    def ended(self, store, result): ...


@pytest.fixture(scope="module")
def files(small_files, tmp_path_factory):
    """The small collection, and a run of 20 seeded candidates for each test query."""
    folder = shutil.copytree(small_files, tmp_path_factory.mktemp("files") / "files")
    rng = np.random.default_rng(3)
    passages = [x.split("\t")[0] for x in (folder / "passages.tsv").read_text().splitlines()]
    queries = [x.split("\t")[0] for x in (folder / "queries.test.tsv").read_text().splitlines()]
    lines = []
    for query in queries:
        chosen = rng.choice(100, DEPTH, replace=False)
        for rank, place in enumerate(chosen, 1):
            lines.append(f"{query} Q0 {passages[place]} {rank} {50.0 - rank} first\n")
    (folder / "run.trec").write_text("".join(lines))
    return folder


@pytest.fixture(scope="module")
def run(files, tiny_model, tiny_mono, tiny_duo):
    def go(out, stores, *overrides, **options):
        text = RECIPE.format(
            files=files,
            run=files / "run.trec",
            stores=stores,
            encoder=tiny_model,
            mono=tiny_mono,
            duo=tiny_duo,
        )
        recipe = load_recipe(text, overrides=overrides, source="reranking")
        return run_pipeline(recipe, out, Options(**options), watcher=Silent()).summary

    return go


@pytest.fixture(scope="module")
def finished(run, tmp_path_factory):
    root = tmp_path_factory.mktemp("finished")
    return root, run(root / "work", root / "stores")


def lines(work, system):
    found = {}
    for line in (work / "runs" / "test" / f"{system}.trec").read_text().splitlines():
        query, _, passage, *_ = line.split()
        found.setdefault(query, []).append(passage)
    return found


def payloads(stores, name, columns):
    tables = []
    for manifest in sorted(stores.glob(f"{name}/*/manifest.json")):
        for record in json.loads(manifest.read_text())["body"]["records"]:
            tables.append(pq.read_table(stores / "blobs" / record["sha256"][:2] / record["sha256"]))
    return pa.concat_tables(tables).cast(columns) if tables else columns.empty_table()


def texts_of(path):
    pairs = (line.split("\t", 1) for line in path.read_text().splitlines())
    return dict(pairs)


def scored_one_by_one(folder, query, passages):
    model = resolve_model(str(folder))
    parts = []
    for text in (query, *passages):
        flat, offsets = tokenize_batch(open_tokenizer(model), [text], max_pieces=512)
        parts.append(TextSlice(flat, offsets[:-1], np.diff(offsets)))
    return float(load_scorer(model).score(parts[0], parts[1:])[0])


def test_mono_reorders_its_first_k0_by_scores_of_pairs_alone(finished, files, tiny_mono):
    work = finished[0] / "work"
    first, mono = lines(work, "first"), lines(work, "mono")
    queries, passages = texts_of(files / "queries.test.tsv"), texts_of(files / "passages.tsv")
    row = {passage: place for place, passage in enumerate(passages)}
    for query in list(first)[:4]:
        top = first[query][:12]
        scores = {p: scored_one_by_one(tiny_mono, queries[query], [passages[p]]) for p in top}
        expected = sorted(top, key=lambda p: (-np.float32(scores[p]), row[p]))
        assert mono[query] == expected + first[query][12:]


def test_duo_sum_reorders_its_first_k1_by_sums_of_every_pair(finished, files, tiny_duo):
    work = finished[0] / "work"
    mono, duo = lines(work, "mono"), lines(work, "duo-sum")
    queries, passages = texts_of(files / "queries.test.tsv"), texts_of(files / "passages.tsv")
    for query in list(mono)[:4]:
        top = mono[query][:4]
        sums = {
            i: sum(
                np.float64(
                    np.float32(
                        scored_one_by_one(tiny_duo, queries[query], [passages[i], passages[j]])
                    )
                )
                for j in top
                if j != i
            )
            for i in top
        }
        assert duo[query] == sorted(top, key=lambda p: -sums[p]) + mono[query][4:]


def test_depth_is_unchanged_but_where_the_tail_is_dropped(finished):
    root, summary = finished
    recall = {name: m["R@20"] for name, m in summary["measures"]["test"].items()}
    same = {recall[name] for name in ("first", "mono", "duo-sum", "duo-sample")}
    assert len(same) == 1 and same != {0.0}
    assert all(len(found) == 3 for found in lines(root / "work", "duo-min").values())


def test_every_probability_is_kept_and_inferences_are_those_evaluated(finished):
    root, _ = finished
    num_queries = len(lines(root / "work", "first"))
    kept = payloads(root / "stores", "duo.test", schema.SCORES)
    evaluated = payloads(root / "stores", "scores@duo.test.1", schema.SCORES)
    assert kept.num_rows == evaluated.num_rows == num_queries * 4 * 3
    assert payloads(root / "stores", "scores@mono.test.1", schema.SCORES).num_rows == (
        num_queries * 12
    )


def test_inferences_are_told_of_each_system(finished):
    root, summary = finished
    num_queries = len(lines(root / "work", "first"))
    told = {name: system.get("inferences") for name, system in summary["systems"].items()}
    both = num_queries * (12 + 12)
    expected = {"first": None, "mono": num_queries * 12, "duo-sum": both, "duo-min": both}
    assert told == {**expected, "duo-sample": both}
    assert f"- duo-sum: {both:,} inferences" in (root / "work" / "table.md").read_text()


def test_runs_and_pairs_are_exported_with_original_ids(finished, tmp_path):
    root, _ = finished
    count = export(root / "stores" / "duo.test", "parquet", tmp_path / "pairs")
    pairs = pq.read_table(tmp_path / "pairs" / "pairs.parquet")
    assert pairs.column_names == ["query_id", "passage_id", "other_id", "probability"]
    mono = lines(root / "work", "mono")
    found = set(zip(*(pairs[c].to_pylist() for c in pairs.column_names[:3]), strict=True))
    expected = {(q, i, j) for q, ps in mono.items() for i in ps[:4] for j in ps[:4] if i != j}
    assert found == expected and count == len(expected)
    assert export(root / "stores" / "duo-sum.test", "parquet", tmp_path / "run") == sum(
        map(len, lines(root / "work", "duo-sum").values())
    )


def test_no_passage_outside_the_run_is_tokenised(finished, files):
    root, summary = finished
    named = {p for ps in lines(root / "work", "first").values() for p in ps[:12]}
    assert summary["stages"]["pieces@mono.test.1"]["rows"] == len(named)
    tokenised = {path.parent.parent.name for path in root.glob("stores/tokens@*/*/manifest.json")}
    assert tokenised == {"tokens@mono.test", "tokens@duo.test"}


def test_a_second_invocation_computes_nothing(finished, run):
    root, _ = finished
    again = run(root / "work", root / "stores")
    assert all(stage["reused"] for stage in again["stages"].values())


def test_other_runs_and_depths_score_only_what_nobody_scored(finished, run, tmp_path):
    root, before = finished
    stores = shutil.copytree(root / "stores", tmp_path / "stores")
    num_queries = len(lines(root / "work", "first"))
    more = run(tmp_path / "more", stores, "stages.mono.k0=15", until="mono")
    assert more["stages"]["scores@mono.test.2"]["rows"] == num_queries * 3
    less = run(tmp_path / "less", stores, "stages.mono.k0=5", until="mono")
    assert less["stages"]["scores@mono.test.3"]["rows"] == 0
    assert less["systems"]["mono"]["ms_per_query"] is None
    # A grid over k0: candidates that the largest k0 never sent to the duo are scored.
    grid = run(tmp_path / "grid", stores, "stages.mono.k0=15")
    fresh = run(tmp_path / "fresh", tmp_path / "fresh-stores", "stages.mono.k0=15")
    assert grid["measures"] == fresh["measures"]
    added = grid["stages"]["scores@duo.test.2"]["rows"]
    assert 0 < added < num_queries * 4 * 3
    for system in ("mono", "duo-sum", "duo-min", "duo-sample"):
        assert lines(tmp_path / "grid", system) == lines(tmp_path / "fresh", system)


def test_a_drawn_sample_equals_sample_from_the_full_table(finished, run, tmp_path):
    root, _ = finished
    drawn = run(
        tmp_path / "work",
        tmp_path / "stores",
        "stages.duo.sample=2",
        "stages.duo.seed=5",
        "stages.duo-sum.method=sample",
        "stages.duo-sum.m=2",
        "stages.duo-sum.seed=5",
        "stages.duo-min.method=sample",
        "stages.duo-min.m=2",
        "stages.duo-min.seed=5",
        "stages.duo-min.k1=4",
        until="duo-sum",
    )
    num_queries = len(lines(root / "work", "first"))
    assert drawn["stages"]["scores@duo.test.1"]["rows"] == num_queries * 4 * 2
    assert lines(tmp_path / "work", "duo-sum") == lines(root / "work", "duo-sample")


def test_m_of_k1_minus_1_is_the_sum(finished, run, tmp_path):
    root, _ = finished
    stores = shutil.copytree(root / "stores", tmp_path / "stores")
    run(tmp_path / "work", stores, "stages.duo-sample.m=3", until="duo-sample")
    assert lines(tmp_path / "work", "duo-sample") == lines(root / "work", "duo-sum")


def test_a_killed_part_is_finished_and_what_it_committed_is_held_by_others(finished, run, tmp_path):
    root, _ = finished
    calm = {p.relative_to(root): p.read_bytes() for p in root.rglob("blobs/*/*")}
    stores = shutil.copytree(root / "stores", tmp_path / "stores")
    (scores,) = (stores / "scores@mono.test.1").iterdir()
    (selected,) = (stores / "mono.test").iterdir()
    (scores / "manifest.json").unlink()
    shutil.rmtree(selected)
    records = sorted((scores / "shards").iterdir())
    assert len(records) > 2
    for record in records[1:]:
        record.unlink()
    held = json.loads(records[0].read_text())["body"]["facts"]["rows"]
    other = run(tmp_path / "other", stores, "stages.mono.k0=11", until="mono")
    num_queries = len(lines(root / "work", "first"))
    added = other["stages"]["scores@mono.test.2"]["rows"]
    assert num_queries * 11 - held <= added <= num_queries * 11 - held * 10 // 12
    again = run(tmp_path / "again", stores)
    assert again["measures"] == finished[1]["measures"]
    assert again["stages"]["scores@mono.test.1"]["shards"]["reused"] == 1
    found = {p.relative_to(tmp_path): p.read_bytes() for p in tmp_path.rglob("stores/blobs/*/*")}
    assert all(found[name] == data for name, data in calm.items())


def test_whole_tokens_are_used_where_they_stand(finished, run, tmp_path):
    root, _ = finished
    run(
        tmp_path / "work",
        tmp_path / "stores",
        "models.duo.path=" + "minilm",
        tokens_of="mono",
        stages=("first", "mono"),
    )
    names = {p.name for p in (tmp_path / "stores").iterdir()}
    assert "tokens@mono" in names and "pieces@mono.test.1" not in names
    assert lines(tmp_path / "work", "mono") == lines(root / "work", "mono")


def test_frozen_refuses_another_k0_by_name(finished, run, tmp_path):
    root, _ = finished
    work = shutil.copytree(root / "work", tmp_path / "work")
    stores = shutil.copytree(root / "stores", tmp_path / "stores")
    assert run(work, stores, frozen=True)["exit"] == 0
    with pytest.raises(RefusedError, match=r"mono.test: params.k0 12 -> 9"):
        run(work, stores, "stages.mono.k0=9", frozen=True)


def test_a_model_of_the_other_kind_is_refused(run, tmp_path):
    with pytest.raises(InputError, match="duo is a duo model.*give k1"):
        run(tmp_path / "work", tmp_path / "stores", "stages.mono.model=duo")
    with pytest.raises(InputError, match="expected a mono or duo model, found an encoder"):
        run(tmp_path / "work", tmp_path / "stores", "stages.mono.model=minilm")


def test_only_needs_its_input_stored(run, tmp_path):
    with pytest.raises(IncompleteError, match="only leaves it out"):
        run(tmp_path / "work", tmp_path / "stores", only="mono")
