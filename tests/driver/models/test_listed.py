"""Files that are not those of the hub's list, and a cache that is not whole: none is stored."""

import hashlib
import re
import shutil
from pathlib import Path

import pytest

from raypipe.driver.models.library import fetched
from raypipe.driver.models.listed import wrong_files
from raypipe.errors import InputError

NAME = "acme/tiny-encoder"


@pytest.fixture
def commit(hub, tiny_model, tmp_path):
    """Of a repository with a layer's folder and a file in it."""
    folder = shutil.copytree(tiny_model, tmp_path / "repository")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode": "cls"}')
    return hub.push(NAME, folder)


@pytest.mark.parametrize("name", ["config.json", "1_Pooling/config.json", "model.safetensors"])
def test_other_bytes_than_the_hub_lists_are_refused_and_fetched_anew_once_deleted(
    hub, commit, tiny_model, name
):
    hub.ill[f"/{commit}/{name}"] = "other"
    for _ in range(2):
        with pytest.raises(InputError) as caught:
            fetched(NAME, commit)
        (problem,) = caught.value.problems
        assert problem.startswith(f"{NAME} at {commit}: {name}: expected the bytes of git's hash ")
        hub.ill.clear()
    wrong = re.search(r"found others in (.*); delete that file and run again", problem)[1]
    Path(wrong).unlink()
    found = fetched(NAME, commit)
    assert (
        found["model.safetensors"].read_bytes() == (tiny_model / "model.safetensors").read_bytes()
    )
    assert found["1_Pooling/config.json"].read_text() == '{"pooling_mode": "cls"}'


def test_a_file_that_the_cache_names_by_its_sha256_is_right_whatever_pointer_is_listed(tmp_path):
    (tmp_path / hashlib.sha256(b"weights").hexdigest()).write_bytes(b"weights")
    (name,) = (path.name for path in tmp_path.iterdir())
    assert wrong_files(tmp_path, {name: "0" * 40}) == []
    (tmp_path / name).write_bytes(b"others!")
    assert len(wrong_files(tmp_path, {name: "0" * 40})) == 1


def test_a_list_that_the_library_does_not_keep_is_asked_of_the_hub(hub, commit, monkeypatch):
    import huggingface_hub
    from huggingface_hub.errors import CachedRepoTreeNotFoundError

    def lost(*given, **more):
        raise CachedRepoTreeNotFoundError("no list")

    kept = fetched(NAME, commit)
    files = hub.repositories[NAME]
    files[commit] = dict(reversed(files[commit].items()))
    monkeypatch.setattr(huggingface_hub, "get_cached_repo_tree", lost)
    found = fetched(NAME, commit)
    assert found == kept and list(found) == sorted(found) and "1_Pooling/config.json" in found


def test_a_cache_without_links_is_compared_by_its_bytes(hub, commit, offline, tmp_path):
    fetched(NAME, commit)
    hubs = tmp_path / "library" / "hub"
    whole = shutil.copytree(hubs, tmp_path / "copy")  # the links become files
    shutil.rmtree(hubs)
    shutil.copytree(whole, hubs)
    shutil.rmtree(hubs / "models--acme--tiny-encoder" / "blobs")
    offline()
    found = fetched(NAME, commit)
    assert not found["model.safetensors"].is_symlink()
    found["model.safetensors"].write_bytes(b"x" * found["model.safetensors"].stat().st_size)
    with pytest.raises(InputError, match="model.safetensors: expected the bytes of git's hash"):
        fetched(NAME, commit)


def test_offline_a_cache_with_some_of_the_files_is_refused(hub, commit, offline):
    from huggingface_hub import hf_hub_download

    for name in ("config.json", "model.safetensors"):  # as a library that opens models leaves it
        hf_hub_download(NAME, name, revision=commit)
    offline()
    with pytest.raises(InputError) as caught:
        fetched(NAME, commit)
    told = str(caught.value)
    assert "HF_HUB_OFFLINE is set, and neither stores nor the library's cache have it" in told
    assert f"`hf download {NAME} --revision {commit}` fetches both" in told


def test_a_file_that_is_on_the_list_and_not_in_the_folder_is_named(hub, commit, offline, tmp_path):
    (tmp_path / "empty").mkdir()
    (problem,) = wrong_files(tmp_path / "empty", {"config.json": "0" * 40})
    assert problem == f"config.json: on the hub's list, and not in {tmp_path / 'empty'}"
    fetched(NAME, commit)["1_Pooling/config.json"].unlink()
    offline()
    with pytest.raises(InputError, match="HF_HUB_OFFLINE is set"):
        fetched(NAME, commit)
