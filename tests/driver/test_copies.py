"""Workspaces that were copied or moved, whose stores are shared or their own."""

import shutil

import pytest
from small_invocation import RECIPE, Watching

from raypipe.cli.main import run
from raypipe.config.load import load_recipe
from raypipe.driver.pipeline import Options, run_pipeline
from raypipe.driver.upkeep.gc import delete, find_garbage
from raypipe.driver.upkeep.status import open_workspace
from raypipe.driver.upkeep.verify import verify
from raypipe.driver.workspace import Workspace, is_copy, read_refs
from raypipe.storage.records import seal


@pytest.fixture
def shared(invocable, tiny_model, tiny_mono):
    """A folder in whose W an invocation was complete, and a way to run there again."""
    folder, _ = invocable
    text = RECIPE.format(folder=folder, model=tiny_model, mono=tiny_mono)

    def again(name="w", *overrides, stores=folder / "s"):
        given = [*overrides, *([f"stores={stores}"] if stores else [])]
        recipe = load_recipe(text, overrides=given, source="small")
        run_pipeline(recipe, folder / name, Options(), watcher=Watching())
        return open_workspace(folder / name)

    return folder, again


def copy(folder, name="w", to="copy"):
    shutil.copytree(folder / name, folder / to, copy_function=shutil.copy2)


def collect(workspace):
    delete(workspace, find_garbage(workspace, spared_seconds=-1.0), spared_seconds=-1.0)


@pytest.mark.slow
def test_a_copy_gets_its_own_identity_and_neither_loses_its_stores(shared):
    folder, again = shared
    original = again()
    refs = original.refs()
    copy(folder)
    other = again("copy", "stages.dense.depth=1")
    assert other.id != original.id and len(list((folder / "s" / "refs").iterdir())) == 2
    assert original.refs() == refs and other.refs()["dense.dev"] != refs["dense.dev"]
    assert open_workspace(folder / "w").id == original.id
    collect(other)
    collect(original)
    assert verify(original) == verify(open_workspace(folder / "copy")) == []
    assert again("copy", "stages.dense.depth=1").id == other.id


@pytest.mark.parametrize("lost", [(), ("results.json",)])
def test_the_copy_keeps_what_it_used_when_the_original_has_moved_on(shared, lost):
    folder, again = shared
    original = again()
    refs = original.refs()
    copy(folder)
    for name in lost:
        (folder / "copy" / name).unlink()
    again("w", "stages.dense.depth=1")
    assert run(["gc", str(folder / "copy")])[0] == 0
    assert open_workspace(folder / "copy").id == original.id, "nothing is deleted yet"
    assert run(["gc", str(folder / "copy"), "--yes"])[0] == 0
    twin = open_workspace(folder / "copy")
    assert read_refs(twin.stores, twin.id).stores == refs and twin.id != original.id
    collect(twin)
    assert [damage.name for damage in verify(twin)] == [*lost] and verify(original) == []


def test_a_moved_workspace_goes_on_as_it_was(shared):
    folder, again = shared
    before = again().id
    (folder / "w").rename(folder / "moved")
    new = again("w")  # another one in its old place
    moved = again("moved", "stages.dense.depth=1")
    assert moved.id == before != new.id
    assert read_refs(moved.stores, before).place["workspace"] == str(folder / "moved")
    assert len(list((folder / "s" / "refs").iterdir())) == 2
    (folder / "moved").rename(folder / "back")
    (folder / "link").symlink_to(folder / "back")
    assert again("back").id == again("link").id == before


def test_a_workspace_that_was_copied_with_its_stores_keeps_its_identity(shared):
    folder, again = shared
    original = again("w", stores=None)
    copy(folder)
    other = again("copy", "stages.dense.depth=1", stores=None)
    assert other.id == original.id
    assert [path.stem for path in (folder / "copy" / "stores" / "refs").iterdir()] == [other.id]
    collect(other)
    assert verify(other) == verify(original) == []


def test_a_place_that_cannot_be_read_or_holds_another_workspace_is_no_original(tmp_path):
    here = {"workspace": str(tmp_path / "here"), "stores": "s"}
    there = {"workspace": str(tmp_path / "there"), "stores": "s"}
    assert not is_copy(here, there, "x")
    in_bucket = {"workspace": "s3://b/here", "stores": "s"}
    assert not is_copy(in_bucket, in_bucket, "x")  # nothing is asked of the bucket
    Workspace(tmp_path / "there")
    (tmp_path / "there" / "workspace.json").write_bytes(seal({"format": 1, "id": "x"}))
    assert is_copy(here, there, "x") and is_copy(in_bucket, there, "x")
    (tmp_path / "link").symlink_to(tmp_path / "there")
    assert not is_copy({**there, "workspace": str(tmp_path / "link")}, there, "x")
    assert not is_copy(here, there, "another") and not is_copy(here, {**there, "stores": "t"}, "x")
    (tmp_path / "there" / "workspace.json").write_bytes(b"{")
    assert not is_copy(here, there, "x")
