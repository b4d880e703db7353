"""Folders of sentence-transformers whose embeddings raypipe computes: the library's own."""

import numpy as np
import pytest
from drawn_models import TEXTS
from json_files import changed, write
from peer_encoders import apart, ours, peer

from raypipe.errors import InputError
from raypipe.models.folder.discover import discover
from raypipe.models.folder.modules import ModelFiles


def normalize():
    from sentence_transformers.base.modules import Normalize

    return Normalize()


@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "lasttoken"])
def test_every_pooling_of_a_packed_model(tmp_path, pooling):
    theirs = peer(tmp_path, "roberta", pooling)
    assert apart(ours(tmp_path, TEXTS)[0], theirs.encode(TEXTS)) < 1e-5


@pytest.mark.parametrize("where", ["the folder", "the settings"])
@pytest.mark.parametrize("last", [False, True])
def test_a_folders_cut_is_sentence_transformers_own_and_one_in_settings_ends_at_length_one(
    tmp_path, where, last
):
    after = [normalize()] if last else []
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


def sentence(folder, *modules, **settings):
    listed = [("Transformer", ""), ("Pooling", "1_Pooling"), *modules]
    write(folder / "modules.json", [{"type": name, "path": place} for name, place in listed])
    write(folder / "1_Pooling" / "config.json", {"pooling_mode": "mean"})
    write(folder / "config.json", {"max_position_embeddings": 9})
    write(folder / "config_sentence_transformers.json", settings)
    return folder


def test_the_settings_say_whether_normalize_ends_it(tmp_path):
    found = discover(ModelFiles(sentence(tmp_path, ("Normalize", "2_Normalize"))), None)
    assert found.conventions.normalise and found.sources["normalise"] == "modules.json: Normalize"
    found = discover(ModelFiles(sentence(tmp_path)), None)
    assert not found.conventions.normalise
    assert found.sources["normalise"] == "modules.json: no Normalize"
    found = discover(ModelFiles(sentence(tmp_path, truncate_dim=None)), None)
    assert found.conventions.truncate_dim is None and found.sources["truncate_dim"] == "default"


@pytest.mark.parametrize("cut", [0, -1, True, "7", 7.0, [7]])
def test_a_cut_that_is_no_count_is_refused(tmp_path, cut):
    with pytest.raises(InputError, match="truncate_dim: expected a count of dimensions or null"):
        discover(ModelFiles(sentence(tmp_path, truncate_dim=cut)), None)


@pytest.mark.parametrize("path", ["/etc", "../other", "1_Pooling/../../other"])
@pytest.mark.parametrize("file", ["modules.json", "router_config.json"])
def test_a_module_outside_the_folder_is_refused(tmp_path, path, file):
    """Its files would be in no fingerprint."""
    model = "sentence_transformers.models.Transformer"
    pooling = "sentence_transformers.models.Pooling"
    if file == "modules.json":
        write(tmp_path / file, [{"path": "", "type": model}, {"path": path, "type": pooling}])
    else:
        router = "sentence_transformers.models.Router"
        write(tmp_path / "modules.json", [{"path": "", "type": router}])
        write(tmp_path / file, {"types": {path: model}, "structure": {"document": [path]}})
    with pytest.raises(InputError, match=f"{file}: .*expected the name"):
        _ = ModelFiles(tmp_path).modules


@pytest.mark.parametrize("positions", ["512", [512]])
def test_positions_that_are_no_number_are_refused_beside_a_limit_of_the_tokenizer(
    tmp_path, positions
):
    peer(tmp_path, "roberta", "mean")
    changed(tmp_path / "config.json", max_position_embeddings=positions)
    changed(tmp_path / "tokenizer_config.json", model_max_length=20)
    with pytest.raises(InputError, match="max_position_embeddings"):
        ours(tmp_path, TEXTS)
