"""Single-stage verbs, exports that other tools open, and BM25 beside pyserini's own command."""

import json
import os
import subprocess
import sys
from itertools import zip_longest

import numpy as np
import pyarrow.parquet as pq
import pytest

from raypipe.data.qrels import read_qrels
from raypipe.data.queries import read_queries
from raypipe.evaluation.measures import evaluate
from raypipe.evaluation.runs import read_run

pytestmark = pytest.mark.jvm

RECIPE = """
format: 1
name: exported
collection: {{format: msmarco-v1, input: {files}/passages.tsv}}
queries: {{test: {{file: {files}/queries.test.tsv, qrels: {files}/qrels.test.txt}}}}
models: {{minilm: {{path: minilm}}}}
stages:
  lucene: {{do: index}}
  embeddings: {{do: encode, model: minilm}}
  bm25: {{do: search, index: lucene, depth: 100}}
  dense: {{do: search, index: embeddings, depth: 100}}
resources: {{backend: inline, device: cpu, shard_tokens: 4000}}
"""
# pyserini asks its Java for a module that small runtimes lack; a JVM that runs already it takes.
PYSERINI = """
import os, runpy, sys
from raypipe.stages.lucene_java import start_jvm
start_jvm()
os.environ.setdefault("OPENAI_API_KEY", "unused")
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__")
"""


def pyserini(*arguments):
    command = [sys.executable, "-c", PYSERINI, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.fixture(scope="module")
def work(small_files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    (folder / "recipe.yaml").write_text(RECIPE.format(files=small_files))
    command = [sys.executable, "-m", "raypipe", "pipeline", folder / "recipe.yaml"]
    done = subprocess.run([*command, "--out", folder / "work"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "work"


def export(store, to, out):
    command = [sys.executable, "-m", "raypipe", "export", store, "--to", to, "--out", out]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


def ranking(path):
    found: dict[str, list[str]] = {}
    for row in read_run(path).to_pylist():
        found.setdefault(row["query_id"], []).append(row["passage_id"])
    return found


def test_exported_embeddings_are_the_stored_ones_in_row_order(work, small_files, tmp_path):
    out = export(work / "stores" / "embeddings", "numpy", tmp_path / "numpy")
    vectors = np.load(out / "embeddings.npy")
    ids = (out / "ids.txt").read_text().splitlines()
    lines = (small_files / "passages.tsv").read_text().splitlines()
    assert vectors.dtype == np.float16 and vectors.shape == (300, 384)
    assert ids == [line.split("\t")[0] for line in lines]
    np.testing.assert_allclose(np.linalg.norm(vectors.astype(np.float64), axis=1), 1, atol=1e-3)


def test_exported_faiss_folder_gives_the_same_top_100(work, tmp_path):
    import faiss

    passages = export(work / "stores" / "embeddings", "faiss", tmp_path / "faiss")
    queries = export(work / "stores" / "embeddings.test", "numpy", tmp_path / "queries")
    index = faiss.read_index(str(passages / "index"))
    docid = (passages / "docid").read_text().splitlines()
    wanted = ranking(work / "runs/test/dense.tsv")
    names = (queries / "ids.txt").read_text().splitlines()
    _, found = index.search(np.load(queries / "embeddings.npy").astype(np.float32), 100)
    for query, rows in zip(names, found, strict=True):
        assert {docid[row] for row in rows} == set(wanted[query])


def test_pyserinis_own_searchers_open_the_exported_folders(work, small_files, tmp_path):
    lucene = export(work / "stores" / "lucene", "pyserini", tmp_path / "lucene")
    for name, folder in [("bm25", lucene)]:
        out = tmp_path / f"{name}.tsv"
        pyserini(
            *("pyserini.search.lucene", "--index", folder, "--hits", 100, "--bm25"),
            *("--topics", small_files / "queries.test.tsv", "--output", out),
            *("--output-format", "msmarco", "--k1", 0.9, "--b", 0.4),
        )
        ours, theirs = ranking(work / f"runs/test/{name}.tsv"), ranking(out)
        assert ours.keys() == theirs.keys()
        assert all(set(ours[query]) == set(theirs[query]) for query in ours)


def test_exported_runs_have_original_ids(work, tmp_path):
    out = export(work / "stores" / "dense.test", "parquet", tmp_path / "run")
    table = pq.read_table(out / "run.parquet")
    assert table.select(["query_id", "passage_id"]).equals(
        read_run(work / "runs/test/dense.trec").select(["query_id", "passage_id"])
    )


def test_an_export_refuses_a_target_with_files_and_a_wrong_form(work, raypipe_cli, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("x")
    store = work / "stores" / "lucene"
    assert (
        raypipe_cli("export", store, "--to", "pyserini", "--out", tmp_path / "full").returncode == 2
    )
    wrong = raypipe_cli("export", store, "--to", "numpy", "--out", tmp_path / "new")
    assert wrong.returncode == 2 and "pyserini" in wrong.stderr
    assert not (tmp_path / "new").exists()


def agree(collection, queries, qrels, ours, tmp_path):
    """Both index and search; measures on each one's own ranks agree to 4 decimals.

    Anserini breaks ties by id as a string, raypipe by row: ids that sort like rows give both one
    rule, and the original ids come back before anything is measured.
    """
    (tmp_path / "input").mkdir()
    with (tmp_path / "input" / "passages.jsonl").open("w") as out:
        for row, (_, text) in enumerate(collection):
            out.write(json.dumps({"id": f"{row:07d}", "contents": text}) + "\n")
    topics = tmp_path / "topics.tsv"
    topics.write_text("".join(f"{q}\t{text}\n" for q, text in queries))
    pyserini(
        *("pyserini.index.lucene", "--collection", "JsonCollection", "--threads", 1),
        *("--input", tmp_path / "input", "--index", tmp_path / "index", "--storeRaw"),
        *("--generator", "DefaultLuceneDocumentGenerator", "--storePositions", "--storeDocvectors"),
    )
    pyserini(
        *("pyserini.search.lucene", "--index", tmp_path / "index", "--hits", 1000, "--bm25"),
        *("--topics", topics, "--output", tmp_path / "theirs.tsv", "--k1", 0.9, "--b", 0.4),
        *("--output-format", "msmarco"),
    )
    lines = [line.split("\t") for line in (tmp_path / "theirs.tsv").read_text().splitlines()]
    back = [f"{query}\t{collection[int(row)][0]}\t{rank}\n" for query, row, rank in lines]
    (tmp_path / "theirs.tsv").write_text("".join(back))
    measures = ["nDCG@10", "RR@10", "AP", "R@100"]
    found = evaluate(read_run(ours), qrels, measures).mean
    theirs = evaluate(read_run(tmp_path / "theirs.tsv"), qrels, measures).mean
    for measure in measures:
        assert f"{found[measure]:.4f}" == f"{theirs[measure]:.4f}", measure


def test_bm25_agrees_with_pyserinis_command_line_on_nfcorpus(raypipe_cli, raypipe_data, tmp_path):
    folder = raypipe_data / "nfcorpus"
    done = raypipe_cli(
        *("pipeline", "nfcorpus", "--out", tmp_path / "w", "--until", "bm25"),
        "resources.backend=inline",
        RAYPIPE_DATA=str(raypipe_data),
    )
    assert done.returncode == 0, done.stderr
    out = tmp_path / "passages"
    export((tmp_path / "w" / "stores" / "passages@collection"), "pyserini", out)
    lines = map(json.loads, (out / "passages.jsonl").read_text().splitlines())
    collection = [(line["id"], line["contents"]) for line in lines]
    qrels = read_qrels(folder / "qrels" / "test.tsv.gz")
    kept = set(qrels["query_id"].to_pylist())
    queries = read_queries(folder / "queries.jsonl.gz", keep=kept)
    agree(collection, queries, qrels, tmp_path / "w/runs/test/bm25.tsv", tmp_path)


def test_single_verbs_give_what_the_pipeline_gives(work, raypipe_cli, small_files, tmp_path):
    prepared = raypipe_cli(
        *("prepare", "--format", "msmarco-v1", "--input", small_files / "passages.tsv"),
        *("--out", tmp_path / "a"),
    )
    assert prepared.returncode == 0, prepared.stderr
    assert (
        raypipe_cli("index", "--collection", tmp_path / "a", "--out", tmp_path / "b").returncode
        == 0
    )
    search = ("--queries", small_files / "queries.test.tsv", "--depth", 100)
    found = raypipe_cli(
        "search", "--index", tmp_path / "b", *search, "--out", tmp_path / "c", "--json"
    )
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["stages"]["lucene"]["reused"]
    ours = ranking(tmp_path / "c/runs/queries/search.tsv")
    assert ours == ranking(work / "runs/test/bm25.tsv")
    runs = [f"--runs={work}/runs/test/{name}.trec" for name in ("bm25", "dense")]
    fused = raypipe_cli(
        "fuse", *runs, "--method", "alternate", "--depth", 4, "--out", tmp_path / "f"
    )
    assert fused.returncode == 0, fused.stderr
    dense = ranking(work / "runs/test/dense.tsv")
    for query, passages in ranking(tmp_path / "f" / "fused.tsv").items():
        turns = zip_longest(ours.get(query, []), dense[query])
        taken = dict.fromkeys(p for turn in turns for p in turn if p is not None)
        assert passages == list(taken)[:4]


def test_bad_arguments_are_all_told(raypipe_cli, tmp_path):
    done = raypipe_cli(
        "fuse",
        "--runs",
        tmp_path / "x",
        "--runs",
        tmp_path / "y",
        "--method",
        "rrf",
        "--out",
        tmp_path / "f",
    )
    assert done.returncode == 2
    assert done.stderr.count("no such file") >= 2
    assert os.listdir(tmp_path) == []
