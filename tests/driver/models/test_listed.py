"""Files that are not those of the hub's list, and a cache that is not whole: none is used."""

import re
import shutil
from pathlib import Path

import pytest

from raypipe.errors import InputError
from raypipe.models.hub import snapshot_of

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
            snapshot_of(f"hf://{NAME}@{commit}")
        (problem,) = caught.value.problems
        assert problem.startswith(f"{NAME} at {commit}: {name}: expected the bytes of git's hash ")
        hub.ill.clear()
    wrong = re.search(r"found others in (.*); delete that file and run again", problem)[1]
    Path(wrong).unlink()
    found = snapshot_of(f"hf://{NAME}@{commit}")
    weights = (tiny_model / "model.safetensors").read_bytes()
    assert (found / "model.safetensors").read_bytes() == weights
    assert (found / "1_Pooling/config.json").read_text() == '{"pooling_mode": "cls"}'


def test_a_list_that_the_library_does_not_keep_is_asked_of_the_hub(hub, commit, monkeypatch):
    import huggingface_hub
    from huggingface_hub.errors import CachedRepoTreeNotFoundError

    def lost(*given, **more):
        raise CachedRepoTreeNotFoundError("no list")

    kept = snapshot_of(f"hf://{NAME}@{commit}")
    monkeypatch.setattr(huggingface_hub, "get_cached_repo_tree", lost)
    number = len(hub.asked)
    assert snapshot_of(f"hf://{NAME}@{commit}") == kept and len(hub.asked) > number


def test_a_cache_without_links_is_compared_by_its_bytes(hub, commit, offline, tmp_path):
    snapshot_of(f"hf://{NAME}@{commit}")
    hubs = tmp_path / "library" / "hub"
    whole = shutil.copytree(hubs, tmp_path / "copy")  # the links become files
    shutil.rmtree(hubs)
    shutil.copytree(whole, hubs)
    shutil.rmtree(hubs / "models--acme--tiny-encoder" / "blobs")
    offline()
    found = snapshot_of(f"hf://{NAME}@{commit}")
    weights = found / "model.safetensors"
    assert not weights.is_symlink()
    weights.write_bytes(b"x" * weights.stat().st_size)
    with pytest.raises(InputError, match="model.safetensors: expected the bytes of git's hash"):
        snapshot_of(f"hf://{NAME}@{commit}")


def test_offline_a_cache_with_some_of_the_files_is_refused(hub, commit, offline):
    from huggingface_hub import hf_hub_download

    for name in ("config.json", "model.safetensors"):  # as a library that opens models leaves it
        hf_hub_download(NAME, name, revision=commit)
    offline()
    with pytest.raises(InputError) as caught:
        snapshot_of(f"hf://{NAME}@{commit}")
    told = str(caught.value)
    assert "HF_HUB_OFFLINE is set, and the library's cache does not have it" in told
    assert f"`hf download {NAME} --revision {commit}` fetches both" in told


def test_a_file_that_is_on_the_list_and_not_in_the_folder_is_asked_for(hub, commit, offline):
    (snapshot_of(f"hf://{NAME}@{commit}") / "1_Pooling/config.json").unlink()
    offline()
    with pytest.raises(InputError, match="HF_HUB_OFFLINE is set"):
        snapshot_of(f"hf://{NAME}@{commit}")
