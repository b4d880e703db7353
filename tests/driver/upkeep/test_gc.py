"""gc touches only what raypipe wrote and nobody holds, and may be killed after any file."""

import os
import shutil

import pytest
from recipes import invoke

from raypipe.driver.upkeep.gc import delete, find_garbage
from raypipe.driver.upkeep.status import open_workspace
from raypipe.driver.upkeep.verify import verify

RECIPE = """
format: 1
name: tiny
collection: {{format: msmarco-v1, input: {files}/passages.tsv}}
queries: {{test: {{file: {files}/queries.test.tsv}}}}
models: {{minilm: {{path: {model}}}}}
stages:
  embeddings: {{do: encode, model: minilm}}
  dense: {{do: search, index: embeddings, depth: 5}}
resources: {{backend: inline, device: cpu, shard_tokens: 6000, shard_queries: 20}}
stores: {stores}
"""


@pytest.fixture
def run(small_files, tiny_model, tmp_path):
    def go(*overrides):
        text = RECIPE.format(files=small_files, stores=tmp_path / "stores", model=tiny_model)
        invoke(text, tmp_path / "work", *overrides)
        return open_workspace(tmp_path / "work")

    return go


def payload_bytes(stores):
    return {p.name: p.read_bytes() for p in stores.rglob("blobs/*/*")}


def test_files_that_are_not_raypipes_are_left_and_told(run, tmp_path):
    work = run()
    stores = tmp_path / "stores"
    strangers = [
        "notes.txt",
        "models/bert/vocab.txt",
        "models/bert/plan.json",
        "a/b/shards/00001.json",
        "blobs/README",
    ]
    for name in strangers:
        (stores / name).parent.mkdir(parents=True, exist_ok=True)
        (stores / name).write_text("mine")
    (manifest,) = (stores / "dense.test").glob("*/manifest.json")
    inside = manifest.parent / "notes.txt"
    inside.write_text("mine")
    run("stages.dense.depth=3")
    garbage = find_garbage(work, spared_seconds=-1)
    assert any(name.startswith("dense.test/") for name in garbage.names)
    assert set(garbage.strangers) >= {*strangers[:-1], str(inside.relative_to(stores))}
    delete(work, garbage)
    assert all((stores / name).read_text() == "mine" for name in strangers)
    assert inside.read_text() == "mine" and not manifest.exists()


def test_payloads_that_a_kept_manifest_names_stay_without_its_shard_records(run, tmp_path):
    work = run()
    stores = tmp_path / "stores"
    before = payload_bytes(stores)
    for record in stores.glob("embeddings/*/shards/*.json"):
        record.unlink()
    assert find_garbage(work, spared_seconds=-1).names == []
    (manifest,) = (stores / "embeddings").glob("*/manifest.json")
    data = bytearray(manifest.read_bytes())
    data[1] ^= 1  # damaged: its hashes are kept all the same
    manifest.chmod(0o644)
    manifest.write_bytes(data)
    assert find_garbage(work, spared_seconds=-1).names == []
    assert payload_bytes(stores) == before


@pytest.mark.slow
@pytest.mark.fault(
    3, "gc ended after each of its files: every store absent, or resumed with equal bytes"
)
def test_killed_after_any_file_a_store_is_absent_or_resumable_with_equal_bytes(run, tmp_path):
    work = run()
    stores, copy = tmp_path / "stores", tmp_path / "copy"
    calm = payload_bytes(stores)
    run("stages.dense.depth=3")
    garbage = find_garbage(work, spared_seconds=-1)
    assert len(garbage.names) > 8
    shutil.copytree(stores, copy, copy_function=shutil.copy2)
    for count in range(1, len(garbage.names) + 1):
        shutil.rmtree(stores)
        shutil.copytree(copy, stores, copy_function=shutil.copy2)
        for name in garbage.names[:count]:
            work.stores.delete(name)
        work = run()  # refers to the store of depth 5 again
        assert verify(work) == [], garbage.names[count - 1]
        found = payload_bytes(stores)
        assert all(found[name] == data for name, data in calm.items())
        # What the kill left of the other store is still garbage, or gone with this one.
        work = run("stages.dense.depth=3")
        delete(work, find_garbage(work, spared_seconds=-1))
        assert verify(work) == []


def test_a_store_is_as_young_as_its_youngest_file(run, tmp_path):
    work = run()
    run("stages.dense.depth=3")
    stores = tmp_path / "stores"
    for path in stores.rglob("*"):
        if path.is_file():
            os.utime(path, (1, 1))
    doomed = [n for n in find_garbage(work).names if n.startswith("dense.test/")]
    assert doomed
    before = set(find_garbage(work).names)
    os.utime(stores / doomed[0])
    now = set(find_garbage(work).names)
    assert not [name for name in now if name.startswith("dense.test/")]
    spared = {name for name in before - now if name.startswith("blobs/")}
    assert spared, "its payloads stay with it"


def test_an_unfinished_file_of_a_live_process_stays(run, tmp_path):
    work = run()
    scratch = work.stores.scratch()
    (scratch / "half").write_text("x")
    assert find_garbage(work, spared_seconds=-1).names == []
