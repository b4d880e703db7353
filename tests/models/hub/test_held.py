"""A model whose files are in stores: each node makes a folder of links to its own copies."""

import json
import os
import shutil
from dataclasses import replace

import pytest

from raypipe.errors import CorruptError
from raypipe.models.encoder import load_encoder
from raypipe.models.folder.loading import resolve_model
from raypipe.models.hub.held import NOTE, HeldFiles, read_note
from raypipe.models.hub.linked import linked_folder
from raypipe.storage.posix import PosixStorage
from raypipe.storage.records import hash_file


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def held(tiny_model, tmp_path):
    """The files of a model in stores."""
    storage, files = PosixStorage(tmp_path / "stores"), {}
    for path in sorted(tiny_model.iterdir()):
        files[path.name] = hash_file(path)
        storage.put(files[path.name], path)
    return HeldFiles(storage.uri, "acme/tiny", "c" * 40, files)


def test_the_folder_has_the_files_and_says_whose_they_are(held, tiny_model):
    folder = linked_folder(held)
    assert folder.parts[-3:] == ("models--acme--tiny", "snapshots", "c" * 40)
    for path in tiny_model.iterdir():
        assert (folder / path.name).read_bytes() == path.read_bytes()
    assert read_note(folder) == held and read_note(tiny_model) is None
    assert linked_folder(held) == folder


@pytest.mark.parametrize("place", ["elsewhere", "cache/raypipe/hub/other"])
def test_a_note_that_came_with_a_model_is_not_believed(held, tiny_model, tmp_path, place):
    folder = tmp_path / place
    shutil.copytree(tiny_model, folder)
    shutil.copyfile(linked_folder(held) / NOTE, folder / NOTE)
    assert read_note(folder) is None and resolve_model(str(folder)).held is None
    for damaged in ("{", "[]", "{}", json.dumps(dict.fromkeys(json.loads(note_of(held)), 1))):
        (folder / NOTE).write_text(damaged)
        assert read_note(folder) is None


def note_of(held):
    return (held.place / NOTE).read_text()


def test_links_that_lead_nowhere_are_made_again(held, tmp_path):
    folder = linked_folder(held)
    (folder / "config.json").unlink()
    (folder / "config.json").symlink_to(tmp_path / "nowhere")
    assert b"hidden_size" in (linked_folder(held) / "config.json").read_bytes()


def test_two_that_make_the_folder_at_once_do_not_meet(held, monkeypatch, tiny_model):
    replace_one, started = os.replace, []

    def replace_late(beside, place):
        if not started:
            started.append(place)
            linked_folder(held)  # another makes it all, of the same process id
        replace_one(beside, place)

    monkeypatch.setattr(os, "replace", replace_late)
    folder = linked_folder(held)
    assert started and {path.name for path in folder.iterdir()} == {*held.files, NOTE}


def test_stores_in_two_places_have_two_folders(held, tmp_path):
    shutil.copytree(tmp_path / "stores", tmp_path / "moved")
    other = replace(held, stores=str(tmp_path / "moved"))
    assert linked_folder(other) != linked_folder(held)


def test_a_node_without_the_folder_makes_it_and_computes_the_same(held, cache, tiny_model):
    model = resolve_model(str(linked_folder(held)))
    assert model.held == held and model.of_hub == f"acme/tiny@{'c' * 40}"
    shutil.rmtree(cache)
    there = load_encoder(model)
    assert there.dim == load_encoder(resolve_model(str(tiny_model))).dim
    assert (cache / "raypipe" / "hub").is_dir()


def test_a_damaged_file_is_refused(held, tmp_path):
    sha256 = held.files["config.json"]
    blob = tmp_path / "stores" / "blobs" / sha256[:2] / sha256
    blob.chmod(0o644)
    blob.write_bytes(b"{}")
    with pytest.raises(CorruptError, match=sha256[:12]):
        linked_folder(held)
