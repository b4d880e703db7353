"""A hub's model in the stores: what an interrupted fetch, gc and verify make of it."""

import shutil

import pytest

from raypipe.driver.models import hub as stored
from raypipe.driver.upkeep.gc import delete, find_garbage
from raypipe.driver.upkeep.verify import verify
from raypipe.driver.workspace import Workspace
from raypipe.models.folder.loading import resolve_model
from raypipe.storage.ledger import Ledger

NAME = "acme/tiny-encoder"


@pytest.fixture
def workspace(tmp_path):
    return Workspace(tmp_path / "work")


def damages(workspace):
    """Those of the stores: no invocation has left a summary."""
    return [damage for damage in verify(workspace) if damage.name != "summary.json"]


def test_it_is_fetched_once_and_its_hashes_are_those_of_the_files(hub, workspace, tiny_model):
    commit = hub.push(NAME, tiny_model)
    manifest, anew = stored.ensure(workspace, NAME, commit)
    assert anew and [r.facts["file"] for r in manifest.records] == sorted(
        path.name for path in tiny_model.iterdir()
    )
    number = len(hub.asked)
    assert stored.ensure(workspace, NAME, commit) == (manifest, False)
    assert len(hub.asked) == number
    folder = stored.folder_of(workspace.stores, NAME, commit, manifest)
    found, plain = resolve_model(str(folder)), resolve_model(str(tiny_model))
    assert found.weights_sha256 == plain.weights_sha256
    assert found.tokenizer_sha256 == plain.tokenizer_sha256
    assert found.conventions == plain.conventions


def test_a_fetch_that_was_killed_is_continued(hub, workspace, tiny_model, monkeypatch):
    commit = hub.push(NAME, tiny_model)
    commit_one = Ledger.commit

    def killed(self, shard, payload, facts):
        if shard.index == 2:
            raise KeyboardInterrupt
        return commit_one(self, shard, payload, facts)

    monkeypatch.setattr(Ledger, "commit", killed)
    with pytest.raises(KeyboardInterrupt):
        stored.ensure(workspace, NAME, commit)
    assert stored.find(workspace.stores, NAME, commit) is None
    monkeypatch.setattr(Ledger, "commit", commit_one)
    manifest, anew = stored.ensure(workspace, NAME, commit)
    assert anew and len(manifest.records) == 4 and damages(workspace) == []


def test_gc_keeps_what_a_workspace_uses_and_deletes_the_rest(hub, workspace, tiny_model, tmp_path):
    commit = hub.push(NAME, tiny_model)
    stored.ensure(workspace, NAME, commit)
    assert find_garbage(workspace, spared_seconds=-1).names == []
    (tmp_path / "work" / "stores" / "refs" / f"{workspace.id}.json").unlink()
    garbage = find_garbage(workspace, spared_seconds=-1)
    assert len(garbage.stores) == 1 and len(garbage.blobs) == 4
    delete(workspace, garbage, spared_seconds=-1)
    assert stored.ensure(workspace, NAME, commit)[1]


def test_verify_names_a_damaged_file_and_its_remedy_fetches_it_again(hub, workspace, tiny_model):
    commit = hub.push(NAME, tiny_model)
    manifest, _ = stored.ensure(workspace, NAME, commit)
    root, record = workspace.folder / "stores", manifest.records[0]
    blob = root / "blobs" / record.sha256[:2] / record.sha256
    blob.chmod(0o644)
    blob.write_bytes(b"x")
    (damage,) = damages(workspace)
    assert damage.name.endswith(record.sha256)
    for path in (
        blob,
        *(
            root / f"hub@acme--tiny-encoder/{manifest.fingerprint}/{name}"
            for name in ("shards/00000.json", "manifest.json")
        ),
    ):
        assert path.name in damage.remedy
        path.unlink()
    shutil.rmtree(root / "tmp", ignore_errors=True)
    assert stored.ensure(workspace, NAME, commit)[0] == manifest and damages(workspace) == []
