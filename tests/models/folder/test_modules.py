"""Folders of sentence-transformers with layers behind pooling: its own embeddings."""

import json

import numpy as np
import pytest
from drawn_models import TEXTS
from json_files import changed, write
from peer_encoders import apart, ours, peer

from raypipe.errors import InputError
from raypipe.models.folder.discover import discover


def dense(inner, outer, *, bias=True, tanh=True):
    import torch
    from sentence_transformers.base.modules import Dense

    activation = torch.nn.Tanh() if tanh else torch.nn.Identity()
    return Dense(inner, outer, bias=bias, activation_function=activation)


def normalize():
    from sentence_transformers.base.modules import Normalize

    return Normalize()


@pytest.mark.parametrize("kind", ["roberta", "electra"])
@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "lasttoken"])
def test_every_pooling_of_a_packed_model_and_of_another(tmp_path, kind, pooling):
    theirs = peer(tmp_path, kind, pooling)
    found, model = ours(tmp_path, TEXTS)
    assert apart(found, theirs.encode(TEXTS)) < 1e-5
    assert model.dense == () and "dense" not in model.forward_config()


CHAINS = {
    "one": lambda: [dense(32, 20)],
    "two, then length 1": lambda: [
        dense(32, 48, bias=False, tanh=False),
        dense(48, 8),
        normalize(),
    ],
    "length 1 first": lambda: [normalize(), dense(32, 20, tanh=False)],
    "length 1 between and last": lambda: [dense(32, 9), normalize(), dense(9, 17), normalize()],
}


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("kind", ["roberta", "gemma3_text"])
def test_layers_and_lengths_in_any_order(tmp_path, kind, chain):
    theirs = peer(tmp_path, kind, "mean", *CHAINS[chain]())
    assert apart(ours(tmp_path, TEXTS)[0], theirs.encode(TEXTS)) < 1e-5


@pytest.mark.parametrize("where", ["the folder", "the settings"])
@pytest.mark.parametrize("last", [False, True])
def test_a_folders_cut_is_sentence_transformers_own_and_one_in_settings_ends_at_length_one(
    tmp_path, where, last
):
    after = [dense(32, 20), *([normalize()] if last else [])]
    theirs = peer(tmp_path, "roberta", "mean", *after)
    settings = {"truncate_dim": 7}
    if where == "the folder":
        changed(tmp_path / "config_sentence_transformers.json", **settings)
        settings = {}
    found, model = ours(tmp_path, TEXTS, **settings)
    again = last and where == "the settings"
    expected = theirs.encode(TEXTS, truncate_dim=7, normalize_embeddings=again)
    assert found.shape == (len(TEXTS), 7) and apart(found, expected) < 1e-5
    assert model.conventions.to_json()["truncate_dim"] == 7
    if again:
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, atol=1e-5)


def test_settings_can_leave_the_lengths_that_encode_leaves(tmp_path):
    theirs = peer(tmp_path, "roberta", "mean", normalize())
    told = {"dense": ["normalise"], "normalise": False, "truncate_dim": 5}
    found, _ = ours(tmp_path, TEXTS, **told)
    assert apart(found, theirs.encode(TEXTS, truncate_dim=5)) < 1e-5


def sentence(folder, *modules, **settings):
    listed = [("Transformer", ""), ("Pooling", "1_Pooling"), *modules]
    write(folder / "modules.json", [{"type": name, "path": place} for name, place in listed])
    write(folder / "1_Pooling" / "config.json", {"pooling_mode": "mean"})
    write(folder / "config.json", {"max_position_embeddings": 9})
    write(folder / "config_sentence_transformers.json", settings)
    return folder


def test_the_settings_say_what_follows_pooling_and_where_it_stands(tmp_path):
    found = discover(sentence(tmp_path, ("Dense", "2_Dense"), ("Normalize", "3_Normalize")), None)
    assert (found.conventions.dense, found.conventions.normalise) == (("2_Dense",), True)
    assert found.sources["dense"] == "modules.json"
    assert found.sources["normalise"] == "modules.json: Normalize"
    found = discover(sentence(tmp_path, ("Normalize", "2_N"), ("Dense", "3_Dense")), None)
    assert found.conventions.dense == ("normalise", "3_Dense") and not found.conventions.normalise
    assert found.sources["normalise"] == "modules.json: no Normalize at the end"
    found = discover(sentence(tmp_path), None)
    assert found.conventions.dense == () and found.sources["dense"] == "default"
    assert found.sources["normalise"] == "modules.json: no Normalize"
    found = discover(sentence(tmp_path, truncate_dim=None), None)
    assert found.conventions.truncate_dim is None and found.sources["truncate_dim"] == "default"


def test_a_normalize_of_tokens_states_is_refused(tmp_path):
    sentence(tmp_path, ("Normalize", "2_Normalize"))
    for key in ("module_input_name", "module_output_name"):
        write(tmp_path / "2_Normalize" / "config.json", {key: "token_embeddings"})
        with pytest.raises(InputError, match=f"{key}: expected sentence_embedding, found 'token"):
            discover(tmp_path, None)
    write(tmp_path / "2_Normalize" / "config.json", {"module_input_name": "sentence_embedding"})
    assert discover(tmp_path, None).conventions.normalise


@pytest.mark.parametrize("cut", [0, -1, True, "7", 7.0, [7]])
def test_a_cut_that_is_no_count_is_refused(tmp_path, cut):
    with pytest.raises(InputError, match="truncate_dim: expected a count of dimensions or null"):
        discover(sentence(tmp_path, truncate_dim=cut), None)


@pytest.mark.parametrize("steps", ["2_Dense", [1], {"a": 1}, None])
def test_layers_that_are_no_list_of_names_are_refused(tmp_path, steps):
    sentence(tmp_path)
    (tmp_path / "raypipe.json").write_text(json.dumps({"dense": steps}))
    with pytest.raises(InputError, match="dense: expected a list of folders' names, and normalise"):
        discover(tmp_path, None)
