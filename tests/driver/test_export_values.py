"""Exports of a small finished workspace, and what its table and its state say, by hand."""

import json
import os
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
from watchers import Silent

from raypipe.config import load_recipe
from raypipe.driver.pipeline import Options, run_pipeline
from raypipe.driver.upkeep.export import export
from raypipe.driver.upkeep.status import open_workspace, status
from raypipe.errors import IncompleteError, InputError

RECIPE = """
format: 1
name: small
collection: {{format: msmarco-v1, input: {folder}/passages.tsv}}
queries:
  dev: {{file: {folder}/queries.tsv, qrels: {folder}/qrels.txt}}
  other: {{file: {folder}/queries.tsv, report: false}}
models: {{tiny: {{path: {model}}}}}
stages:
  vectors: {{do: encode, model: tiny}}
  dense: {{do: search, index: vectors, depth: 2}}
  given: {{do: read, runs: {{dev: {folder}/run.trec}}}}
  fused: {{do: fuse, runs: [given, dense], method: rrf, depth: 3}}
evaluate:
  measures: [RR@10]
  baseline: given
  topics: two of them
  relevance: grade 1
resources: {{backend: inline, device: cpu, shard_rows: 2, shard_tokens: 9}}
"""
IDS = ["p0", "p1", "p2", "p3", "p4"]
TEXTS = ["the zebra", "a lease", "of shards", "rank a query", "run"]


@pytest.fixture(scope="session")
def small_workspace(tiny_model, tmp_path_factory):
    """The workspace, and what its invocation returned and said."""
    folder = tmp_path_factory.mktemp("small")
    lines = (f"{i}\t{t}\n" for i, t in zip(IDS, TEXTS, strict=True))
    (folder / "passages.tsv").write_text("".join(lines))
    (folder / "queries.tsv").write_text("q1\ta zebra\nq2\tthe lease\nq3\trun\n")
    (folder / "qrels.txt").write_text("q1 0 p0 1\nq2 0 p4 1\n")
    (folder / "run.trec").write_text("q1 Q0 p3 1 9 x\nq1 Q0 p0 2 8 x\nq3 Q0 p1 1 7 x\n")
    said = []
    recipe = load_recipe(RECIPE.format(folder=folder, model=tiny_model), source="small")
    outcome = run_pipeline(recipe, folder / "work", Options(), watcher=Silent(), say=said.append)
    return folder / "work", outcome, said


@pytest.fixture
def stores(small_workspace):
    return small_workspace[0] / "stores"


def test_embeddings_leave_with_the_ids_of_their_rows(small_workspace, stores, tmp_path):
    import faiss

    assert export(stores / "vectors", "numpy", tmp_path / "n") == 5
    vectors = np.load(tmp_path / "n" / "embeddings.npy")
    assert vectors.shape == (5, 32) and vectors.dtype == np.float16
    assert (tmp_path / "n" / "ids.txt").read_text() == "".join(f"{i}\n" for i in IDS)
    assert len(np.unique(vectors, axis=0)) == 5
    assert export(stores / "vectors", "faiss", tmp_path / "f") == 5
    index = faiss.read_index(str(tmp_path / "f" / "index"))
    assert (index.ntotal, index.metric_type) == (5, faiss.METRIC_INNER_PRODUCT)
    np.testing.assert_array_equal(index.reconstruct_n(0, 5), vectors.astype(np.float32))
    assert (tmp_path / "f" / "docid").read_text() == "p0\np1\np2\np3\np4\n"
    assert export(stores / "vectors.dev", "numpy", tmp_path / "q") == 3
    assert (tmp_path / "q" / "ids.txt").read_text() == "q1\nq2\nq3\n"
    queries = np.load(tmp_path / "q" / "embeddings.npy").astype(np.float64)
    best = np.argsort(-(queries @ vectors.astype(np.float64).T).astype(np.float32), axis=1)[:, :2]
    lines = (small_workspace[0] / "runs" / "dev" / "dense.tsv").read_text().splitlines()
    found = [line.split("\t") for line in lines]
    assert found == [
        [f"q{query + 1}", IDS[row], str(rank)]
        for query, rows in enumerate(best)
        for rank, row in enumerate(rows, 1)
    ]


def test_a_collection_leaves_as_json_lines_or_a_table(stores, tmp_path):
    assert export(stores / "passages@collection", "pyserini", tmp_path / "j") == 5
    lines = (tmp_path / "j" / "passages.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"id": i, "contents": text} for i, text in zip(IDS, TEXTS, strict=True)
    ]
    assert export(stores / "passages@collection", "parquet", tmp_path / "p") == 5
    table = pq.read_table(tmp_path / "p" / "passages.parquet")
    assert table.to_pydict() == {"passage_id": IDS, "text": TEXTS}


@pytest.mark.parametrize("name", ["given", "dense", "fused"])
def test_a_run_of_any_stage_leaves_with_ids(small_workspace, stores, tmp_path, name):
    lines = (small_workspace[0] / "runs" / "dev" / f"{name}.tsv").read_text().splitlines()
    assert export(stores / f"{name}.dev", "parquet", tmp_path / "r") == len(lines) > 0
    table = pq.read_table(tmp_path / "r" / "run.parquet").to_pylist()
    found = [f"{row['query_id']}\t{row['passage_id']}\t{row['rank']}" for row in table]
    assert found == lines


def test_an_export_takes_the_newest_complete_store_or_the_one_named(stores, tmp_path):
    copied = shutil.copytree(stores, tmp_path / "stores", copy_function=shutil.copy2)
    (one,) = [p for p in (copied / "vectors").iterdir() if p.is_dir()]
    assert export(one, "numpy", tmp_path / "a") == 5
    (tmp_path / "b").mkdir()  # an empty target may stand
    assert export(copied / "vectors", "numpy", tmp_path / "b") == 5
    older = copied / "vectors" / "0" / "manifest.json"
    older.parent.mkdir()
    older.write_text("{}")
    os.utime(older, (1, 1))
    assert export(copied / "vectors", "numpy", tmp_path / "c") == 5
    (one / "manifest.json").unlink()
    with pytest.raises(IncompleteError, match="not complete; run its pipeline again"):
        export(one, "numpy", tmp_path / "d")
    shutil.rmtree(older.parent)
    with pytest.raises(InputError, match="of a complete store"):
        export(copied / "vectors", "numpy", tmp_path / "d")
    assert not (tmp_path / "d").exists()


def test_an_export_without_what_its_store_was_made_from_leaves_nothing(stores, tmp_path):
    copied = shutil.copytree(stores, tmp_path / "stores", copy_function=shutil.copy2)
    shutil.rmtree(copied / "tokens@tiny")
    with pytest.raises(IncompleteError, match="is not here any more"):
        export(copied / "vectors", "numpy", tmp_path / "out")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["stores"]


def test_what_cannot_be_exported_is_refused_with_what_can(stores, tmp_path):
    with pytest.raises(InputError, match="expected one of numpy, faiss, pyserini, parquet"):
        export(stores / "vectors", "csv", tmp_path / "o")
    with pytest.raises(InputError, match=r"encode can be exported to: \['faiss', 'numpy'\]"):
        export(stores / "vectors", "parquet", tmp_path / "o")
    with pytest.raises(InputError, match="tokenize can be exported to: nothing"):
        export(stores / "tokens@tiny", "numpy", tmp_path / "o")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    with pytest.raises(InputError, match="not empty"):
        export(stores / "vectors", "numpy", tmp_path / "full")


def test_the_table_says_what_is_to_be_known(small_workspace):
    work, outcome, said = small_workspace
    assert said[0].startswith("device: CPU") and outcome.table == (work / "table.md").read_text()
    notes = [line for line in outcome.table.splitlines() if line.startswith("- ")]
    assert notes[-4:] == [
        "- relevant: grade 1",
        "- 5 passages, 3 queries",
        "- ms/query: wall time of the whole chain over all queries, loading excluded",
        "- given: 1 judged queries without a result; each counts 0",
    ]
    assert "- topics: two of them" in notes and "## other" not in outcome.table
    assert "Difference to given, with a 95% interval:" in outcome.table
    measured = (work / "measures" / "dev.tsv").read_text().splitlines()
    assert measured[:3] == [
        "query_id\tsystem\tmeasure\tvalue",
        "q1\tdense\tRR@10\t" + measured[1].split("\t")[3],
        "q2\tdense\tRR@10\t" + measured[2].split("\t")[3],
    ]
    assert "q1\tgiven\tRR@10\t0.5" in measured and "q2\tgiven\tRR@10\t0.0" in measured
    summary = outcome.summary
    assert summary["measures"]["dev"]["given"] == {"RR@10": 0.25}
    assert (summary["status"], summary["exit"], summary["reason"]) == ("complete", 0, "complete")
    assert list(summary["systems"]) == ["dense", "given", "fused"]
    assert summary["systems"]["given"] == {
        "reranks": "as read", "model": "run.trec", "ms_per_query": None,
    }  # fmt: skip
    assert summary["systems"]["fused"]["reranks"] == "given + dense"
    assert summary["systems"]["fused"]["model"] == "rrf"
    assert summary["systems"]["dense"]["ms_per_query"] > 0
    shards = summary["stages"]["vectors"]["shards"]
    assert shards["planned"] > 1 and shards["reused"] == shards["quarantined"] == 0
    assert json.loads((work / "summary.json").read_text()) == summary


def test_status_tells_how_far_each_store_is(small_workspace, tmp_path):
    copied = shutil.copytree(small_workspace[0], tmp_path / "w", copy_function=shutil.copy2)
    found = status(copied)
    assert (found.state, found.exit_code, found.reason) == ("complete", 0, "complete")
    assert list(found.stores) == sorted(found.stores)
    assert set(map(str, found.stores.values())) == {"{'state': 'complete'}"}
    (manifest,) = (copied / "stores" / "vectors").glob("*/manifest.json")
    manifest.unlink()
    records = sorted(manifest.parent.glob("shards/*.json"))
    records[0].unlink()
    assert status(copied).stores["vectors"] == {
        "state": "incomplete", "shards": len(records), "done": len(records) - 1,
    }  # fmt: skip
    (manifest.parent / "plan.json").unlink()
    assert status(copied).stores["vectors"] == {"state": "not planned"}
    open_workspace(copied).write_summary({"status": "failed", "exit": 5, "reason": "no space"})
    found = status(copied)
    assert (found.state, found.exit_code, found.reason) == ("failed", 5, "no space")
    (copied / "summary.json").unlink()
    with pytest.raises(InputError, match="no invocation has begun"):
        status(copied)
    for asks in (status, open_workspace):
        with pytest.raises(InputError, match="no workspace"):
            asks(tmp_path)
