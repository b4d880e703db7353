"""What is asked of a hub, and what becomes of each of its answers."""

import json
import shutil

import numpy as np
import pytest
import torch
from sparse_models import make_routed, save_table

from raypipe.errors import InputError
from raypipe.models.folder.model_folder import (
    layouts_of,
    load_weights,
    open_tokenizer,
    resolve_model,
)
from raypipe.models.hub import newest_commit, snapshot_of
from raypipe.models.load import load_encoder

NAME = "acme/tiny-encoder"


@pytest.fixture
def repository(tiny_model, tmp_path):
    """A folder as on the hub: a model, and beside it code, pickles and other formats."""
    folder = shutil.copytree(tiny_model, tmp_path / "repository")
    for name in ("onnx/model.onnx", "onnx/config.json", "1_Pooling/config.json"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("{}")
    (folder / "1_Pooling" / "training_args.bin").write_bytes(b"pickle")
    (folder / "pytorch_model.bin").write_bytes(b"pickle")
    (folder / "modeling_tiny.py").write_text("raise SystemExit('remote code')\n")
    (folder / "README.md").write_text("# A model\n")
    return folder


def asked_for(hub):
    """The files that were asked for."""
    return {
        path.split("/resolve/")[1].split("/", 1)[1]
        for _, path, _ in hub.asked
        if "/resolve/" in path
    }


def files_in(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.fault(
    38, "of 10 files of a repository 5 are asked for: no code, pickle or other format"
)
def test_safetensors_tokenizer_and_json_are_fetched_and_nothing_else_is_asked_for(hub, repository):
    commit = hub.push(NAME, repository)
    assert newest_commit(NAME, None) == commit
    folder = snapshot_of(f"hf://{NAME}@{commit}")
    wanted = {
        "1_Pooling/config.json",
        "config.json",
        "model.safetensors",
        "raypipe.json",
        "tokenizer.json",
    }
    assert asked_for(hub) == wanted == files_in(folder)
    for name in wanted:
        assert (folder / name).read_bytes() == (repository / name).read_bytes()


def test_a_table_of_queries_is_fetched_and_read_on_each_node(hub, tmp_path):
    repository = make_routed(tmp_path / "routed")
    uri = f"hf://{NAME}@{hub.push(NAME, repository)}"
    assert files_in(snapshot_of(uri)) == files_in(repository)
    table = load_encoder(resolve_model(uri), side="query").encode(
        np.array([7, 8], np.uint16), np.array([0, 2]), side="query"
    )
    assert table.tolist() == [[w * (n in (7, 8)) for n, w in enumerate(save_table(repository, 0))]]


def test_a_branch_and_a_tag_are_commits(hub, repository):
    old = hub.push(NAME, repository, branch="v1")
    (repository / "raypipe.json").write_text("{}")
    new = hub.push(NAME, repository)
    assert newest_commit(NAME, "v1") == old and newest_commit(NAME, None) == new != old


@pytest.mark.fault(38, "a repository with pickles alone is refused, and they are not fetched")
def test_pickles_are_refused_unfetched_with_the_command_that_converts_them(hub, repository):
    (repository / "model.safetensors").unlink()
    commit = hub.push(NAME, repository)
    with pytest.raises(InputError) as caught:
        snapshot_of(f"hf://{NAME}@{commit}")
    assert f"{NAME} at {commit}: expected model.safetensors, found" in str(caught.value)
    assert "pytorch_model.bin: pickles, which can run code and are not fetched" in str(caught.value)
    assert "raypipe model convert" in str(caught.value)
    assert not any(name.endswith(".bin") for name in asked_for(hub))


def test_weights_in_parts_are_fetched_with_the_chat_template(hub, repository):
    parts = [f"model-0000{part}-of-00002.safetensors" for part in (1, 2)]
    for part in parts:
        shutil.copy(repository / "model.safetensors", repository / part)
    (repository / "model.safetensors").unlink()
    for name in ("model.safetensors.index.json", "chat_template.jinja", "merges.txt"):
        (repository / name).write_text("{}")
    found = files_in(snapshot_of(f"hf://{NAME}@{hub.push(NAME, repository)}"))
    assert {*parts, "model.safetensors.index.json", "chat_template.jinja", "merges.txt"} <= found


def test_an_adapter_needs_no_weights_beside_it(hub, repository):
    (repository / "model.safetensors").rename(repository / "adapter_model.safetensors")
    (repository / "adapter_config.json").write_text("{}")
    folder = snapshot_of(f"hf://{NAME}@{hub.push(NAME, repository)}")
    assert {"adapter_model.safetensors", "adapter_config.json"} < files_in(folder)


def test_code_of_its_own_is_refused_before_the_weights_are_fetched(hub, repository):
    config = json.loads((repository / "config.json").read_text())
    for kind in ("bert", "gpt2"):
        body = config | {"model_type": kind, "auto_map": {"AutoModel": "a.B"}}
        (repository / "config.json").write_text(json.dumps(body))
        commit = hub.push(NAME, repository)
        with pytest.raises(InputError, match=f"{NAME}: config.json: auto_map: .*code of the model"):
            snapshot_of(f"hf://{NAME}@{commit}")
    assert "model.safetensors" not in asked_for(hub)


def test_a_repository_that_is_not_there_is_named_with_the_hub(hub):
    with pytest.raises(InputError) as caught:
        newest_commit("acme/none", None)
    told = str(caught.value)
    assert told.startswith(f"acme/none: huggingface_hub could not fetch it from {hub.url}: ")
    assert "set HF_TOKEN to a token" in told and "write ./acme/none" in told


def test_a_revision_that_is_not_there_is_named(hub, repository):
    hub.push(NAME, repository)
    with pytest.raises(InputError, match="acme/tiny-encoder at v9: .*has this name and revision"):
        newest_commit(NAME, "v9")


def test_terms_that_were_not_accepted_are_told(hub, repository):
    hub.push(NAME, repository)
    hub.gated.add(NAME)
    with pytest.raises(InputError, match="set HF_TOKEN to a token of an account that has accepted"):
        newest_commit(NAME, None)


def test_a_private_repository_needs_the_token_and_no_message_has_it(hub, repository, monkeypatch):
    commit = hub.push(NAME, repository)
    hub.private[NAME] = "hf_right"
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(InputError, match="set HF_TOKEN to a token") as caught:
        newest_commit(NAME, None)
    assert "hf_wrong" not in str(caught.value)
    monkeypatch.setenv("HF_TOKEN", "hf_right")
    assert newest_commit(NAME, None) == commit
    assert "model.safetensors" in files_in(snapshot_of(f"hf://{NAME}@{commit}"))
    assert {token for method, _, token in hub.asked[1:]} == {"hf_right"}


def test_offline_the_librarys_cache_is_enough_and_nobody_is_asked(hub, repository, offline):
    commit = hub.push(NAME, repository)
    snapshot_of(f"hf://{NAME}@{newest_commit(NAME, None)}")
    number = len(hub.asked)
    offline()
    assert newest_commit(NAME, None) == commit
    assert "model.safetensors" in files_in(snapshot_of(f"hf://{NAME}@{commit}"))
    assert len(hub.asked) == number


def test_offline_a_model_that_nobody_fetched_is_told(hub, repository, offline):
    commit = hub.push(NAME, repository)
    offline()
    for ask in (lambda: newest_commit(NAME, None), lambda: snapshot_of(f"hf://{NAME}@{commit}")):
        with pytest.raises(InputError, match="HF_HUB_OFFLINE is set, and the library"):
            ask()
    assert hub.asked == []


def test_a_hub_that_cannot_be_reached_is_told(hub, monkeypatch):
    from free_ports import free_ports
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{free_ports(1)[0]}")
    with pytest.raises(InputError, match=r"can be reached \(HF_ENDPOINT names another\)"):
        newest_commit(NAME, None)


def test_a_name_without_a_commit_is_refused_before_anybody_is_asked(hub):
    for uri in (f"hf://{NAME}", f"hf://{NAME}@main"):
        with pytest.raises(InputError, match="expected hf://OWNER/NAME@COMMIT, with a commit"):
            snapshot_of(uri)
    assert hub.asked == []


def opened_at(hub, folder):
    return resolve_model(f"hf://{NAME}@{hub.push(NAME, folder)}")


def test_a_node_without_the_folder_takes_its_own_snapshot_and_computes_the_same(
    hub, tiny_model, tmp_path
):
    model, plain = opened_at(hub, tiny_model), resolve_model(str(tiny_model))
    assert model.weights_sha256 == plain.weights_sha256
    shutil.rmtree(tmp_path / "library")  # as on another machine
    found, own = load_weights(model), load_weights(plain)
    assert all(torch.equal(found[name], own[name]) for name in own) and {*found} == {*own}
    assert layouts_of(model) == layouts_of(plain)
    number = len(hub.asked)
    load_weights(model)
    assert len(hub.asked) == number  # it has it now


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("model.safetensors", "expected weights with SHA-256 .*, as at the start"),
        ("tokenizer.json", "expected the (tokenizer with SHA-256|bytes of git's hash) "),
    ],
)
def test_a_node_whose_hub_has_other_files_at_that_commit_is_refused(
    hub, tiny_model, tiny, tmp_path, name, refused
):
    model = opened_at(hub, tiny_model)
    commit = model.hub.partition("@")[2]
    other = tiny.make_tiny_bert(tmp_path / "other", seed=5) / "model.safetensors"
    tokenizer = (tiny_model / "tokenizer.json").read_text().replace('"zebra"', '"zebre"')
    bodies = {"model.safetensors": other.read_bytes(), "tokenizer.json": tokenizer.encode()}
    hub.repositories[NAME][commit][name] = bodies[name]
    shutil.rmtree(tmp_path / "library")
    with pytest.raises(InputError, match=refused):
        load_weights(model)
        open_tokenizer(model)


def test_a_folder_may_not_name_a_hubs_model_as_the_base_of_its_adapter(hub, tmp_path, tiny_model):
    folder, commit = tmp_path / "adapter", hub.push(NAME, tiny_model)
    folder.mkdir()
    (folder / "adapter_config.json").write_text("{}")
    (folder / "raypipe.json").write_text(json.dumps({"base": f"hf://{NAME}@{commit}"}))
    with pytest.raises(InputError, match="only where a recipe or command names it"):
        resolve_model(str(folder))
    assert hub.asked == []


def test_a_node_takes_its_own_snapshot_of_an_adapter_too(hub, tmp_path):
    plain = resolve_model("minilm-mono")
    model = resolve_model(f"hf://acme/adapter@{hub.push('acme/adapter', plain.adapter)}")
    assert model.weights_sha256 == plain.weights_sha256
    shutil.rmtree(tmp_path / "library")
    found, own = load_weights(model), load_weights(plain)
    assert {*found} == {*own} and all(torch.equal(found[name], own[name]) for name in own)
