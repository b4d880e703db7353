"""Exports of a small finished workspace, by hand."""

import json
import os
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_workspace import IDS, TEXTS

from raypipe.driver.upkeep import export as exported_tables
from raypipe.driver.upkeep.export import export
from raypipe.errors import IncompleteError, InputError
from raypipe.storage.records import seal, unseal


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


@pytest.mark.parametrize("at_once", [1, 10_000])
def test_embeddings_leave_as_a_table_with_ids(stores, tmp_path, monkeypatch, at_once):
    monkeypatch.setattr(exported_tables, "ROWS_AT_ONCE", at_once)
    assert export(stores / "vectors", "numpy", tmp_path / "n") == 5
    assert export(stores / "vectors", "parquet", tmp_path / "p") == 5
    table = pq.read_table(tmp_path / "p" / "embeddings.parquet")
    assert table.column_names == ["passage_id", "embedding"]
    assert table["passage_id"].to_pylist() == IDS
    vectors = np.load(tmp_path / "n" / "embeddings.npy").astype(np.float32)
    np.testing.assert_array_equal(np.stack(table["embedding"].to_pylist()), vectors)
    assert table.schema.field("embedding").type == pa.list_(pa.float32(), 32)
    assert export(stores / "vectors.dev", "parquet", tmp_path / "q") == 3
    table = pq.read_table(tmp_path / "q" / "embeddings.parquet")
    assert table.column_names == ["query_id", "embedding"] and len(table) == 3


@pytest.mark.parametrize("at_once", [1, 10_000])
def test_rows_in_quarantine_leave_in_no_form(stores, tmp_path, monkeypatch, at_once):
    """Their zeros would rank above each passage whose product with the query is negative."""
    import faiss

    monkeypatch.setattr(exported_tables, "ROWS_AT_ONCE", at_once)
    assert export(stores / "vectors", "numpy", tmp_path / "all") == 5
    vectors = np.load(tmp_path / "all" / "embeddings.npy")[[0, 2, 4]]
    copied = shutil.copytree(stores, tmp_path / "stores", copy_function=shutil.copy2)
    (manifest,) = (copied / "vectors").glob("*/manifest.json")
    manifest.chmod(0o644)
    body = unseal(manifest.name, manifest.read_bytes())
    manifest.write_bytes(seal({**body, "skipped_rows": [1, 3]}))
    for form in ("numpy", "faiss", "parquet"):
        assert export(copied / "vectors", form, tmp_path / form) == 3
    ids = f"{IDS[0]}\n{IDS[2]}\n{IDS[4]}\n"
    assert (tmp_path / "numpy" / "ids.txt").read_text() == ids
    np.testing.assert_array_equal(np.load(tmp_path / "numpy" / "embeddings.npy"), vectors)
    assert (tmp_path / "faiss" / "docid").read_text() == ids
    index = faiss.read_index(str(tmp_path / "faiss" / "index"))
    np.testing.assert_array_equal(index.reconstruct_n(0, 3), vectors.astype(np.float32))
    table = pq.read_table(tmp_path / "parquet" / "embeddings.parquet")
    assert table["passage_id"].to_pylist() == ids.split()
    np.testing.assert_array_equal(np.stack(table["embedding"].to_pylist()), vectors)


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


def test_a_store_in_a_bucket_leaves_by_name_and_by_fingerprint(stores, tmp_path, bucket_uri):
    from s3fs import S3FileSystem

    S3FileSystem().put(str(stores), f"{bucket_uri}/stores", recursive=True)
    (fingerprint,) = (path.name for path in (stores / "vectors").iterdir())
    assert export(stores / "vectors", "numpy", tmp_path / "here") == 5
    expected = (tmp_path / "here" / "embeddings.npy").read_bytes()
    for number, place in enumerate(("vectors", f"vectors/{fingerprint}")):
        out = tmp_path / str(number)
        assert export(f"{bucket_uri}/stores/{place}", "numpy", out) == 5
        assert (out / "embeddings.npy").read_bytes() == expected


def test_an_export_without_what_its_store_was_made_from_leaves_nothing(stores, tmp_path):
    copied = shutil.copytree(stores, tmp_path / "stores", copy_function=shutil.copy2)
    shutil.rmtree(copied / "tokens@tiny")
    with pytest.raises(
        IncompleteError, match=r"tokens@tiny/\w{32}: not complete; run its pipeline"
    ):
        export(copied / "vectors", "numpy", tmp_path / "out")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["stores"]


def test_what_cannot_be_exported_is_refused_with_what_can(stores, tmp_path):
    with pytest.raises(InputError, match="expected one of numpy, faiss, pyserini, parquet"):
        export(stores / "vectors", "csv", tmp_path / "o")
    with pytest.raises(InputError, match="of vectors can be exported to: faiss, numpy, parquet$"):
        export(stores / "vectors", "pyserini", tmp_path / "o")
    others = "nothing; stores beside it that can be exported: .*vectors"
    with pytest.raises(InputError, match=f"a store of tokens can be exported to {others}"):
        export(stores / "tokens@tiny", "numpy", tmp_path / "o")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    with pytest.raises(InputError, match="not empty"):
        export(stores / "vectors", "numpy", tmp_path / "full")
    with pytest.raises(InputError, match="--out .*: expected a folder, found the file"):
        export(stores / "vectors", "numpy", tmp_path / "full" / "x")


@pytest.mark.parametrize(
    ("exported", "upstream"),
    [
        ("given.dev", "queries@dev"),
        ("fused.dev", "passages@collection"),
        ("vectors", "tokens@tiny"),
        ("vectors.dev", "queries@dev"),
    ],
)
def test_what_was_made_from_a_store_that_was_made_again_is_refused(
    stores, tmp_path, exported, upstream
):
    """Equal settings name the folder, and its rows may be others: some in quarantine, say."""
    form = "parquet" if exported.count(".") and "vectors" not in exported else "numpy"
    copied = shutil.copytree(stores, tmp_path / "stores", copy_function=shutil.copy2)
    (file,) = (copied / upstream).glob("*/manifest.json")
    export(copied / exported, form, tmp_path / "before")
    file.chmod(0o644)
    body = unseal("manifest.json", file.read_bytes())
    body["records"][0]["facts"]["other"] = 1  # who computed a row, and in which shard, is all one
    file.write_bytes(seal(body))
    export(copied / exported, form, tmp_path / "same")
    body["skipped_rows"] = [0]
    file.write_bytes(seal(body))
    told = f"{upstream}/{file.parent.name}: the store was remade since it was read"
    with pytest.raises(IncompleteError, match=told):
        export(copied / exported, form, tmp_path / "after")
    assert not (tmp_path / "after").exists()
