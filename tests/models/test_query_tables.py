"""Queries of a splade model by a table of weights, beside sentence-transformers."""

import json

import numpy as np
import pytest
import torch
from json_files import changed, write
from safetensors.torch import save_file
from sparse_models import make_routed, make_splade, save_table
from stage_inputs import parts_of

from raypipe.errors import InputError
from raypipe.models import load
from raypipe.models.convert.convert import convert
from raypipe.models.convert.describe import describe
from raypipe.models.folder.discover import why_library
from raypipe.models.folder.model_folder import resolve_model
from raypipe.models.folder.modules import ModelFiles
from raypipe.models.load import load_encoder

TEXTS = [
    "lease shard shard",
    "rank [SEP] a",
    "",
    "score merge model token",
    "token rank lease " * 40,
]
QUERY, DOCUMENT = "query_0_SparseStaticEmbedding", "document_0_Transformer"


def weights_of(folder, texts, side):
    model = resolve_model(str(folder))
    (text,) = parts_of(model, texts)
    offsets = np.concatenate([[0], np.cumsum(text.counts)])
    return load_encoder(model, side=side).encode(text.flat, offsets, side=side)


def test_a_query_has_the_tables_weight_of_each_of_its_word_pieces(tmp_path, monkeypatch):
    folder = make_routed(tmp_path / "routed")
    table = save_table(folder, 3)
    monkeypatch.setattr(load, "load_weights", None)  # the model is not read
    (text,) = parts_of(resolve_model(str(folder)), TEXTS)
    found = weights_of(folder, TEXTS, "query")
    assert found.shape == (5, 66) and found.dtype == np.float32
    for row, start, count in zip(found, text.starts, text.counts, strict=True):
        expected = np.zeros(66, np.float32)
        for piece in text.flat[start : start + min(count, 9)]:
            expected[piece] = table[piece]
        assert np.array_equal(row, expected)
    assert (found > 0).sum() > 10
    opened = load_encoder(resolve_model(str(folder)), side="query")
    assert opened.num_tokens(np.array([0, 3, 5]), "query") == 0


def test_the_passages_and_the_settings_are_those_of_the_model_alone(tmp_path):
    folder, alone = make_routed(tmp_path / "routed"), make_splade(tmp_path / "alone")
    found = weights_of(folder, TEXTS, "passage")
    assert np.array_equal(found, weights_of(alone, TEXTS, "passage"))
    own = resolve_model(str(folder)).encoder
    assert (own.pooling, own.query_table) == ("splade", QUERY)
    assert (own.query_limit, own.passage_limit) == (9, 62)
    assert "query_table" not in own.to_json()
    told = describe(str(folder), None)
    assert told.problems == [] and told.training.startswith("no: queries by a table")
    save_table(folder, 0, id5=4.0)
    assert resolve_model(str(folder)).query_table != resolve_model(str(alone)).query_table is None


def test_a_limit_of_queries_is_not_one_of_the_models_positions(tmp_path):
    folder = make_routed(tmp_path / "routed", limit=500)
    assert describe(str(folder), None).problems == []
    load_encoder(resolve_model(str(folder)), side="passage")
    assert np.count_nonzero(weights_of(folder, ["a " * 600], "query")) == 1


def test_a_folder_with_its_model_in_a_folder_is_converted_with_its_table(tmp_path):
    folder = make_routed(tmp_path / "routed", place=DOCUMENT)
    assert "raypipe model convert" in why_library(ModelFiles(folder), None)
    convert(folder, tmp_path / "out")
    assert describe(str(tmp_path / "out"), None).problems == []
    whole = make_routed(tmp_path / "whole")
    for side in ("query", "passage"):
        expected = weights_of(whole, TEXTS, side)
        assert np.array_equal(weights_of(tmp_path / "out", TEXTS, side), expected)
    (folder / QUERY / "model.safetensors").unlink()
    with pytest.raises(InputError, match="SparseEncoder.*save_pretrained"):
        convert(folder, tmp_path / "other")


@pytest.mark.slow
@pytest.mark.parametrize("place", ["", DOCUMENT])
def test_a_sparse_encoder_of_sentence_transformers_gives_the_same_vectors(tmp_path, place):
    from sentence_transformers import SparseEncoder

    folder = make_routed(tmp_path / "routed", place=place)
    types = {QUERY: "SparseStaticEmbedding", place: "MLMTransformer"}
    types |= {"document_1_SpladePooling": "SpladePooling"}
    package = "sentence_transformers.sparse_encoder.models"
    changed(folder / "router_config.json", types={n: f"{package}.{t}" for n, t in types.items()})
    router = {"type": "sentence_transformers.models.Router", "path": "", "idx": 0, "name": "0"}
    (folder / "modules.json").write_text(json.dumps([router]))
    theirs = SparseEncoder(str(folder), device="cpu")
    theirs.save_pretrained(str(tmp_path / "saved"))
    convert(tmp_path / "saved", tmp_path / "out")
    for side, encode in (("query", theirs.encode_query), ("passage", theirs.encode_document)):
        expected = encode(TEXTS, convert_to_sparse_tensor=False).numpy()
        np.testing.assert_allclose(weights_of(tmp_path / "out", TEXTS, side), expected, atol=1e-5)
        if not place:  # whose own tokenizer knows no special token in a text
            plain = [row for row, text in enumerate(TEXTS) if "[" not in text]
            found = weights_of(folder, [TEXTS[row] for row in plain], side)
            np.testing.assert_allclose(found, expected[plain], atol=1e-5)


POOLING = "document_1_SpladePooling/config.json"
SETTINGS = "config_sentence_transformers.json"


def test_a_sparse_encoder_says_how_many_words_of_a_text_count_and_how_they_are_weighed(tmp_path):
    folder = make_routed(tmp_path / "routed")
    own = resolve_model(str(folder)).encoder
    assert (own.pooling, own.max_terms) == ("splade", None)
    write(folder / SETTINGS, {"max_active_dims": 5, "similarity_fn_name": "dot"})
    write(folder / POOLING, {"activation_function": "log1p_relu"})
    own = resolve_model(str(folder)).encoder
    assert (own.pooling, own.max_terms) == ("splade-log1p", 5)


def routes(folder, **structure):
    body = json.loads((folder / "router_config.json").read_text())
    changed(folder / "router_config.json", structure={**body["structure"], **structure})


@pytest.mark.parametrize(
    "change",
    [
        lambda f: routes(f, query=[QUERY, QUERY]),
        lambda f: routes(f, query=3),
        lambda f: routes(f, other=[QUERY]),
        lambda f: routes(f, document=[QUERY]),
        lambda f: (f / "router_config.json").unlink(),
        lambda f: write(f / "modules.json", [{"type": "a.Router"}, {"type": "a.Normalize"}]),
        lambda f: write(f / SETTINGS, {"similarity_fn_name": "cosine"}),
    ],
)
def test_other_routes_and_similarities_are_left_to_the_library(tmp_path, change):
    folder = make_routed(tmp_path / "routed")
    (folder / "raypipe.json").unlink(missing_ok=True)
    assert why_library(ModelFiles(folder), None) is None
    change(folder)
    assert why_library(ModelFiles(folder), None) is not None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda f: routes(f, query=["x" * 300]), "router_config.json: expected the names of fol"),
        (lambda f: (f / QUERY / "tokenizer_config.json").unlink(), "query_limit: .*model_max_leng"),
        (lambda f: (f / QUERY / "model.safetensors").unlink(), "expected model.safetensors, found"),
        (
            lambda f: save_file({"weight": torch.ones(65)}, f / QUERY / "model.safetensors"),
            r"expected the tensors .*\(66,\)}, a weight for each word piece.*, found .*\(65,\)}",
        ),
        (
            lambda f: changed(f / "raypipe.json", query_table=f"../routed/{QUERY}"),
            "query_table: expected a fol",
        ),
        (lambda f: changed(f / "raypipe.json", query_table=".."), "query_table: expected a fol"),
        (lambda f: changed(f / "raypipe.json", query_table=""), "query_table: expected a fol"),
        (
            lambda f: changed(f / "raypipe.json", pooling="max"),
            "query_table: for a sparse encoder only",
        ),
    ],
)
def test_what_is_no_table_of_queries_is_refused(tmp_path, change, told):
    folder = make_routed(tmp_path / "routed")
    (folder / "raypipe.json").write_text("{}")
    change(folder)
    with pytest.raises(InputError, match=told):
        resolve_model(str(folder))
    assert describe(str(folder), None).problems


def test_a_changed_table_and_weights_below_0_are_refused_where_they_are_read(tmp_path):
    folder = make_routed(tmp_path / "routed")
    before = resolve_model(str(folder))
    for wrong in (-0.5, float("nan"), float("inf")):
        save_table(folder, 0, id5=wrong)
        with pytest.raises(InputError, match="expected weights with SHA-256 .*, as at the start"):
            load_encoder(before, side="query")
        told = f"model.safetensors: expected weights from 0, found {wrong} for word piece 5; set it"
        with pytest.raises(InputError, match=told):
            load_encoder(resolve_model(str(folder)), side="query")
