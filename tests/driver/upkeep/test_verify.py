"""Damage is found wherever it is, and mended by what is told."""

import json
from pathlib import Path

import pytest
from small_invocation import Watching
from tiny_workspace import run

from raypipe.driver.pipeline import Options, run_pipeline
from raypipe.driver.summaries import read_results, write_results
from raypipe.driver.upkeep.export import export
from raypipe.driver.upkeep.status import open_workspace, status
from raypipe.driver.upkeep.verify import verify
from raypipe.errors import CorruptError, IncompleteError
from raypipe.storage.generations import Generation, create_generation, newest_generation
from raypipe.storage.records import FORMAT, seal


def test_damage_is_told_by_store_in_the_order_of_names(invocable):
    folder, recipe = invocable
    run_pipeline(recipe, folder / "w", Options(), watcher=Watching())
    names = []
    for store in ("vectors", "dense.dev", "ids@collection"):
        (manifest,) = (folder / "w" / "stores" / store).glob("*/manifest.json")
        manifest.chmod(0o644)
        manifest.write_text("{")
        names.append(str(manifest.relative_to(folder / "w" / "stores")))
    found = verify(open_workspace(folder / "w"))
    assert [damage.name for damage in found] == sorted(names)
    (plan,) = (folder / "w" / "stores" / "vectors").glob("*/plan.json")
    plan.chmod(0o644)
    plan.write_text("{")
    for damaged in (True, False):
        damage = verify(open_workspace(folder / "w"))[-1]
        assert damage.name == str(plan.relative_to(folder / "w" / "stores"))
        assert damage.remedy.startswith(f"delete the folder {Path(names[0]).parent} and run again")
        plan.unlink(missing_ok=not damaged)


def hashed_files(stores):
    told = ("attempts.jsonl", "lease.json", "refs", "nonce", "tmp")
    names = (p for p in sorted(stores.rglob("*")) if p.is_file())
    return [p for p in names if not any(word in str(p.relative_to(stores)) for word in told)]


def flip(path, position):
    data = bytearray(path.read_bytes())
    data[position % len(data)] ^= 1 << (position % 8)
    path.chmod(0o644)
    path.write_bytes(data)


@pytest.mark.fault(
    10, "one flipped bit in each hashed file of a workspace is found, and its file named"
)
def test_one_flipped_bit_in_any_file_is_found_and_its_file_named(root):
    work = open_workspace(root / "work")
    assert verify(work) == []
    files = hashed_files(root / "stores")
    assert len(files) > 30
    for number, path in enumerate(files):
        before = path.read_bytes()
        flip(path, 31 * number + 5)
        found = verify(open_workspace(root / "work"))
        assert found, path
        name = str(path.relative_to(root / "stores"))
        assert any(
            name in (d.name, *d.remedy.split())
            or d.name in name
            or name.startswith(d.remedy.split()[3])
            for d in found
        ), (name, found)
        path.write_bytes(before)


@pytest.mark.fault(
    10, "the files that the remedy names are deleted: the same bytes again, and nothing damaged"
)
def test_a_damaged_payload_is_found_before_use_and_mended_by_the_remedy(root, small_files):
    work = open_workspace(root / "work")
    calm = {p: p.read_bytes() for p in hashed_files(root / "stores")}
    manifest = next((root / "stores" / "embeddings").glob("*/manifest.json"))
    sha256 = json.loads(manifest.read_text())["body"]["records"][0]["sha256"]
    flip(root / "stores" / "blobs" / sha256[:2] / sha256, 4000)
    with pytest.raises(CorruptError, match=sha256):
        run(small_files, root / "work", root / "stores", "stages.dense.depth=4")
    assert status(root / "work").exit_code == 3
    (damage,) = verify(work)
    doomed = [w.strip(",") for w in damage.remedy.split() if "/" in w]
    assert len(doomed) == 3
    for name in doomed:
        (root / "stores" / name).unlink()
    run(small_files, root / "work", root / "stores")
    assert verify(work) == []
    assert all(path.read_bytes() == data for path, data in calm.items())


def test_a_deleted_spec_or_plan_is_told_by_verify_and_written_anew(root, small_files):
    (spec,) = (root / "stores" / "embeddings").glob("*/spec.json")
    files = (spec, spec.with_name("plan.json"))
    before = [file.read_bytes() for file in files]
    for file in files:
        file.unlink()
    damages = verify(open_workspace(root / "work"))
    assert [damage.name.rpartition("/")[2] for damage in damages] == ["spec.json", "plan.json"]
    assert {damage.remedy for damage in damages} == {"run again to write it"}
    with pytest.raises(IncompleteError, match=r"embeddings/\w+: its spec.json is missing"):
        export(root / "stores" / "embeddings", "numpy", root / "numpy")
    run(small_files, root / "work", root / "stores")
    assert [file.read_bytes() for file in files] == before
    assert verify(open_workspace(root / "work")) == []


def test_damaged_refs_are_told_alone_though_nothing_else_names_the_stores(root):
    work = open_workspace(root / "work")
    (root / "stores" / "refs" / f"{work.id}.json").write_text("{")
    (damage,) = verify(work)
    assert damage.name == f"refs/{work.id}.json"
    assert damage.remedy == f"delete refs/{work.id}.json and run again to write it"


def test_a_damaged_identity_of_a_workspace_is_told_without_a_remedy_that_loses_it(root):
    flip(root / "work" / "workspace.json", 9)
    with pytest.raises(CorruptError, match="so its stores are unknown. Delete .* summary.json has"):
        open_workspace(root / "work")
    (root / "work" / "summary.json").unlink()
    with pytest.raises(CorruptError, match="so its stores are unknown. Restore the file"):
        open_workspace(root / "work")


def test_a_workspace_that_named_its_own_stores_by_their_path_can_be_moved(small_files, tmp_path):
    run(small_files, tmp_path / "work", tmp_path / "work" / "stores")
    (tmp_path / "work").rename(tmp_path / "moved")
    work = open_workspace(tmp_path / "moved")
    assert verify(work) == [] and len(work.refs()) > 5
    assert not (tmp_path / "work").exists()


@pytest.fixture
def generation(root):
    """A generation that alone names a store, and the number of its stores."""
    work = open_workspace(root / "work")
    stores = work.refs()
    create_generation(work.stores, Generation("nightly", 1, stores))
    nothing = {"stores": {}, "sources": {}, "place": {}, "beside": []}
    for path in (work.stores.root / "refs").iterdir():
        path.write_bytes(seal({"format": FORMAT, **nothing}))
    write_results(work.folder, read_results(work.folder) | {"stores": []})
    return work


def test_stores_that_only_a_generation_names_are_verified(generation):
    assert verify(generation) == []
    blob = next(path for path in (generation.stores.root / "blobs").rglob("*") if path.is_file())
    blob.chmod(0o644)
    blob.write_bytes(blob.read_bytes() + b"x")
    assert [damage.name.rpartition("/")[2] for damage in verify(generation)] == [blob.name]


def test_a_damaged_generation_is_named_with_its_remedy(generation):
    record = generation.stores.root / "generations" / "nightly" / "0000001.json"
    record.write_bytes(record.read_bytes()[:-3])
    (damage,) = verify(generation)
    assert damage.name == "generations/nightly/0000001.json"
    assert "the generation before it becomes current" in damage.remedy
    record.unlink()
    assert verify(generation) == []


def test_a_damaged_refused_generation_is_named_and_what_is_current_stays_so(generation):
    assert create_generation(generation.stores, Generation("nightly", 2, {}, {}, "beyond a limit"))
    record = generation.stores.root / "generations" / "nightly" / "0000002.json"
    record.write_bytes(record.read_bytes()[:-3])
    (damage,) = verify(generation)
    assert damage.remedy.startswith("delete generations/nightly/0000002.json, ")
    record.unlink()
    assert verify(generation) == []
    assert newest_generation(generation.stores, "nightly").number == 1
