"""A pipeline whose stores and inputs are in a bucket."""

import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from recipes import invoke

from raypipe.driver.upkeep.gc import delete, find_garbage
from raypipe.driver.upkeep.status import open_workspace, status
from raypipe.driver.upkeep.verify import verify
from raypipe.errors import InputError
from raypipe.storage.bucket import BucketStorage

REQUESTS_A_STORE = 10  # two of them for the forecast
REQUESTS_AN_INVOCATION = 10
RECIPE = """
format: 1
name: tiny
collection: {{format: msmarco-v1, input: [{data}/passages]}}
queries: {{test: {{file: {data}/queries.tsv, qrels: {data}/qrels.txt}}}}
models: {{tiny: {{path: {model}}}}}
stages:
  vectors: {{do: encode, model: tiny}}
  dense: {{do: search, index: vectors, depth: 5}}
evaluate: {{measures: [RR@10]}}
stores: {stores}
resources: {{backend: inline, device: cpu, shard_rows: 4, shard_queries: 1}}
"""


def inputs(num_passages):
    """The files of a collection in two parts, its queries and their judgements, by name."""
    lines = [f"d{n}\tthe zebra number {n} leases a shard\n" for n in range(num_passages)]
    middle = num_passages // 2
    return {
        "passages/part-2.tsv": "".join(lines[:middle]),
        "passages/part-10.tsv": "".join(lines[middle:]),
        "queries.tsv": "1\tthe zebra\n2\ta shard\n",
        "qrels.txt": "1 0 d1 1\n2 0 d2 1\n",
    }


@pytest.fixture
def job(bucket_server, bucket_uri, tiny_model, tmp_path):
    """Runs the recipe with stores in the bucket and inputs there, or in a folder."""
    client, name = bucket_server.client(), bucket_uri.removeprefix("s3://")

    def run(num_passages=8, *overrides, place="bucket", **options):
        for file, text in inputs(num_passages).items():
            if place == "bucket":
                client.put_object(Bucket=name, Key=f"data/{file}", Body=text.encode())
            else:
                path = tmp_path / "data" / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        data = f"{bucket_uri}/data" if place == "bucket" else tmp_path / "data"
        stores = f"{bucket_uri}/stores" if place == "bucket" else tmp_path / "stores"
        text = RECIPE.format(data=data, stores=stores, model=tiny_model)
        bucket_server.forget()
        return invoke(text, tmp_path / place, *overrides, **options).summary

    return run


def fetched(bucket_server):
    asked = (r.key for r in bucket_server.requests if r.method == "GET" and not r.listing)
    return {key for key in asked if key.startswith("data/")}


def payloads(root: Path):
    return {path.name: path.read_bytes() for path in (root / "runs").rglob("*") if path.is_file()}


@pytest.mark.slow
def test_stores_and_inputs_in_a_bucket_give_what_a_folder_gives(job, tmp_path, bucket_uri):
    there, here = job(), job(place="folder")
    assert (there["exit"], here["exit"]) == (0, 0)
    kept = [name for name in here["stages"] if not name.startswith("count@")]  # knows places
    assert {n: there["stages"][n]["fingerprint"] for n in kept} == {
        n: here["stages"][n]["fingerprint"] for n in kept
    }
    assert payloads(tmp_path / "bucket") == payloads(tmp_path / "folder") != {}
    found = status(tmp_path / "bucket")
    assert found.exit_code == 0 and {s["state"] for s in found.stores.values()} == {"complete"}
    work = open_workspace(tmp_path / "bucket")
    assert work.stores.uri == f"{bucket_uri}/stores" and verify(work) == []
    command = [sys.executable, "-m", "raypipe", "export", f"{bucket_uri}/stores/vectors"]
    done = subprocess.run(
        [*command, "--to", "numpy", "--out", str(tmp_path / "out")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert np.load(tmp_path / "out" / "embeddings.npy").shape[0] == 8
    assert (tmp_path / "out" / "ids.txt").read_text().split() == [f"d{n}" for n in range(8)]
    job(8, "stages.dense.depth=2")
    garbage = find_garbage(work, spared_seconds=-60)
    assert [name for name in garbage.stores if name.startswith("dense.test/")]
    delete(work, garbage, spared_seconds=-60)
    assert verify(work) == [] and job(8, "stages.dense.depth=2")["exit"] == 0
    record = next(name for name in work.stores.names("vectors") if "/shards/" in name)
    blob = json.loads(work.stores.read(record))["body"]["sha256"]
    work.stores.replace(f"blobs/{blob[:2]}/{blob}", b"damaged")
    assert [damage.name for damage in verify(work)] == [f"blobs/{blob[:2]}/{blob}"]


@pytest.mark.slow
def test_a_rerun_asks_a_bucket_a_fixed_number_of_times_whatever_the_number_of_shards(
    job, bucket_server
):
    asked = []
    for num_passages in (8, 24):
        job(num_passages)
        again = job(num_passages)
        assert all(stage["reused"] for stage in again["stages"].values())
        stores = [r for r in bucket_server.requests if not r.key.startswith("data")]
        asked.append(len(stores))
        assert len(stores) <= REQUESTS_A_STORE * len(again["stages"]) + REQUESTS_AN_INVOCATION
    assert asked[0] == asked[1]


@pytest.mark.long
def test_a_changed_object_is_fetched_again_and_an_equal_one_is_not(job, bucket_server, tmp_path):
    job()
    job()
    assert not fetched(bucket_server), "written again with the same bytes"
    job(12)
    assert fetched(bucket_server) == {"data/passages/part-2.tsv", "data/passages/part-10.tsv"}
    copies = tmp_path / "bucket" / "inputs"
    names = sorted(path.name for path in copies.glob("*/*.t*"))
    assert names == ["part-10.tsv", "part-2.tsv", "qrels.txt", "queries.tsv"]


def test_what_is_not_in_the_bucket_is_named(job, bucket_uri):
    with pytest.raises(InputError, match=f"{bucket_uri}/data/nothing.tsv: no such object"):
        job(8, f"queries.test.file={bucket_uri}/data/nothing.tsv")


@pytest.mark.long
def test_rows_are_copied_from_the_generation_before_in_a_bucket(job, tmp_path, bucket_uri):
    first = job(8, reindex=True)
    second = job(10, reindex=True)
    assert first["generation"]["number"] == 1 and second["generation"]["number"] == 2
    assert second["stages"]["vectors"]["copied"] == 8
    stores = BucketStorage(f"{bucket_uri}/stores")
    assert [name for name in stores.names("generations")] == [
        "generations/tiny/0000001.json",
        "generations/tiny/0000002.json",
    ]
    assert verify(open_workspace(tmp_path / "bucket")) == []


@contextmanager
def flipped_once(bucket_server, chosen):
    """The first answer about each name that is chosen has another bit in its middle; the names."""
    done = []

    def damage(request, body):
        kind = chosen(request.key)
        if kind is None or kind in done:
            return body
        done.append(kind)
        middle = len(body) // 2
        return body[:middle] + bytes([body[middle] ^ 1]) + body[middle + 1 :]

    forget, bucket_server.forget = bucket_server.forget, lambda: None
    bucket_server.damage = damage
    try:
        yield done
    finally:
        bucket_server.forget = forget


@pytest.mark.slow
@pytest.mark.fault(48, "a flipped bit in the first reply about each store's nonce: asked again")
def test_a_nonce_that_a_bucket_gives_with_a_flipped_bit_is_asked_for_again(job, bucket_server):
    with flipped_once(bucket_server, lambda key: key if "/nonce/" in key else None) as done:
        assert job()["exit"] == 0
    assert len(done) > 4


@pytest.mark.slow
@pytest.mark.fault(48, "a flipped bit in the first reply about each of 4 inputs: fetched again")
def test_an_input_that_a_bucket_gives_with_a_flipped_bit_is_fetched_again(
    job, bucket_server, tmp_path
):
    job(place="folder")
    with flipped_once(bucket_server, lambda key: key if key.startswith("data/") else None) as done:
        assert job()["exit"] == 0
    assert len(done) == 4
    assert payloads(tmp_path / "bucket") == payloads(tmp_path / "folder") != {}
