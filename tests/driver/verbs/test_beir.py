"""`raypipe beir FOLDER`: from a folder to a table."""

import gzip
import json

import pytest

from raypipe.cli.main import run
from raypipe.driver.verbs.single_stage import beir_recipe
from raypipe.errors import InputError

TEXTS = {
    "d1": "a zebra runs",
    "d2": "the lease of a shard",
    "d3": "ranks and shards",
    "q1": "zebra",  # the query itself, which BEIR's evaluation leaves out
}
QUERIES = {"q1": "zebra", "q2": "shard lease", "q3": "nobody judged this"}


@pytest.fixture
def folder(tmp_path):
    """A small collection in BEIR's layout, partly packed."""
    found = tmp_path / "small"
    (found / "qrels").mkdir(parents=True)
    corpus = [json.dumps({"_id": i, "title": "", "text": text}) for i, text in TEXTS.items()]
    (found / "corpus.jsonl").write_text("\n".join(corpus) + "\n")
    queries = [json.dumps({"_id": i, "text": text}) for i, text in QUERIES.items()]
    (found / "queries.jsonl.gz").write_bytes(gzip.compress("\n".join(queries).encode()))
    header = "query-id\tcorpus-id\tscore\n"
    (found / "qrels" / "test.tsv").write_text(f"{header}q1\td1\t1\nq2\td2\t2\n")
    (found / "qrels" / "dev.tsv.gz").write_bytes(gzip.compress(f"{header}q2\td3\t1\n".encode()))
    return found


def test_the_recipe_reads_the_folders_files_and_its_query_set_is_the_split(folder):
    recipe = beir_recipe(folder, "dev", "minilm", ["stages.dense.depth=7"])
    (name,) = recipe.queries
    found = recipe.queries[name]
    assert name == "dev" and found.only_judged and found.exclude == "own-id"
    assert found.file == str(folder / "queries.jsonl.gz")
    assert found.qrels == str(folder / "qrels" / "dev.tsv.gz")
    assert recipe.collection.input == (str(folder),)
    assert recipe.evaluate.topics == "small, dev" and recipe.stages["dense"].depth == 7


def test_every_missing_file_is_named_with_the_splits_that_there_are(folder):
    (folder / "corpus.jsonl").unlink()
    with pytest.raises(InputError) as caught:
        beir_recipe(folder, "train", "minilm", [])
    corpus, qrels = caught.value.problems
    assert "corpus.jsonl: no such file" in corpus
    assert "qrels/train.tsv: no such file" in qrels and "--split dev or test" in qrels


@pytest.mark.jvm
@pytest.mark.slow
def test_the_table_has_bm25_the_encoder_and_both(folder, tiny_model, tmp_path, capsys):
    settings = ["resources.backend=inline", "resources.device=cpu"]
    command = ["beir", str(folder), "--model", str(tiny_model), "--out", str(tmp_path / "out")]
    assert run([*command, *settings])[0] == 0
    table = capsys.readouterr().out
    for system in ("bm25", "dense", "fused"):
        assert f"| {system} " in table
    assert "| encoder " in table and "minilm" not in table
    assert "(n=2)" in table and "- topics: small, test" in table
    line = "exclude: own-id: 1 of 2 queries have passages of their own id, which are left out"
    assert f"- {line}\n" in table
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["measures"]["test"]["bm25"]["nDCG@10"] == 1.0
