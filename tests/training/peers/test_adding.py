"""A trained folder opens in sentence-transformers as its card says, with raypipe's numbers."""

import json
import shutil

import drawn_models
import numpy as np
import pytest
from sparse_models import make_splade
from stage_inputs import parts_of

from raypipe.models.folder.model_folder import resolve_model
from raypipe.models.folder.settings import PRESETS
from raypipe.models.load import load_encoder
from raypipe.stages.in_memory import encode_texts, score_texts
from raypipe.training.peer_files import add_peer_files

TEXTS = ["lease shard rank", "rank", "zebra lease shard " * 9]


@pytest.fixture
def opened(monkeypatch):
    """sentence-transformers, which asks no hub."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import sentence_transformers

    return sentence_transformers


def card_of(trained):
    return (trained.model / "README.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("limit", [12, 20])
def test_an_encoder_opens_with_its_pooling_limit_and_length_one(
    small_recipe, train, tiny_model, tmp_path, opened, limit
):
    model = {"start": str(tiny_model), "preset": "minilm", "total_limit": None}
    model |= {"query_limit": limit, "passage_limit": 20}
    trained = train(small_recipe(model=model, loss={"name": "info-nce"}, steps=4), tmp_path / "out")
    theirs = opened.SentenceTransformer(str(trained.model), device="cpu")
    ours = encode_texts(resolve_model(str(trained.model)), TEXTS, side="passage", device="cpu")
    found = theirs.encode_document(TEXTS)
    np.testing.assert_allclose(found, ours.astype(np.float32), atol=6e-4)  # stored as fp16
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, atol=1e-5)
    assert theirs.max_seq_length == 22
    card = card_of(trained)
    assert "model = SentenceTransformer(THIS_FOLDER)" in card
    assert ("sentence-transformers has one limit" in card) == (limit != 20)


@pytest.mark.slow
@pytest.mark.parametrize("most", [None, 4])
def test_a_splade_model_opens_as_a_sparse_encoder(small_recipe, train, tmp_path, opened, most):
    own = make_splade(tmp_path / "start", max_terms=most)
    settings = json.loads((own / "raypipe.json").read_text())
    model = {"start": str(own), "preset": None, "settings": settings}
    model |= {"query_limit": None, "total_limit": None}
    trained = train(small_recipe(model=model, loss={"name": "info-nce"}, steps=4), tmp_path / "out")
    theirs = opened.SparseEncoder(str(trained.model), device="cpu")
    found = theirs.encode_document(TEXTS, convert_to_sparse_tensor=False).numpy()
    read = resolve_model(str(trained.model))
    (text,) = parts_of(read, TEXTS)
    offsets = np.concatenate([[0], np.cumsum(text.counts)])
    ours = load_encoder(read).encode(text.flat, offsets, side="passage")
    if most is not None:
        for row in ours:
            row[np.argsort(-row, kind="stable")[most:]] = 0
        assert (ours > 0).sum() == most * len(TEXTS)
    np.testing.assert_allclose(found, ours, atol=1e-5)
    card = card_of(trained)
    assert "A SPLADE model, made by" in card and "model = SparseEncoder(THIS_FOLDER)" in card
    (trained.model / "raypipe.json").unlink()
    again = resolve_model(str(trained.model)).encoder
    assert (again.pooling, again.passage_limit, again.max_terms) == ("splade", 62, most)


@pytest.mark.parametrize("units", [1, 2])
def test_a_monobert_opens_with_its_activation(small_recipe, train, tmp_path, opened, units):
    loss = "pairwise-hinge" if units == 1 else "cross-entropy"
    body = {"model": {"head": units}, "loss": {"name": loss}, "steps": 4}
    trained = train(small_recipe(**body), tmp_path / "out")
    model = resolve_model(str(trained.model))
    first, each = np.zeros(len(TEXTS), np.int64), np.arange(len(TEXTS))
    ours = score_texts(model, ["rank"], TEXTS, (first, each, first), device="cpu")
    found = opened.CrossEncoder(str(trained.model), device="cpu").predict(
        [("rank", text) for text in TEXTS], convert_to_numpy=True
    )
    if units == 2:
        found = found[:, 1] - np.logaddexp(found[:, 0], found[:, 1])
        assert "the log-probability of unit 1 after a softmax over both" in card_of(trained)
    np.testing.assert_allclose(found, ours, atol=1e-5)


@pytest.mark.parametrize(
    ("model", "loss"),
    [
        pytest.param(
            {"preset": "minilm", "passage_limit": 20, "total_limit": None},
            "info-nce",
            marks=pytest.mark.slow,
        ),
        ({"head": 1}, "pairwise-hinge"),
        pytest.param({"adapter": {"rank": 2, "alpha": 4}}, "cross-entropy", marks=pytest.mark.slow),
    ],
    ids=["encoder", "mono", "low-rank"],
)
def test_a_modernbert_opens_too(small_recipe, train, tmp_path, opened, model, loss):
    drawn_models.make(tmp_path / "start", "modernbert", units=1)
    body = {"model": {"start": str(tmp_path / "start"), **model}, "loss": {"name": loss}}
    trained = train(small_recipe(**body, steps=4), tmp_path / "out")
    found = resolve_model(str(trained.model))
    assert not found.by_library and found.config()["model_type"] == "modernbert"
    if loss == "info-nce":
        theirs = opened.SentenceTransformer(str(trained.model), device="cpu").encode_document(TEXTS)
        own = encode_texts(found, TEXTS, side="passage", device="cpu").astype(np.float32)
        np.testing.assert_allclose(theirs, own, atol=6e-4)  # stored as fp16
        return
    first, each = np.zeros(len(TEXTS), np.int64), np.arange(len(TEXTS))
    own = score_texts(found, ["rank"], TEXTS, (first, each, first), device="cpu")
    pairs = [("rank", text) for text in TEXTS]
    units = opened.CrossEncoder(str(trained.model), device="cpu").predict(
        pairs, convert_to_numpy=True
    )
    if loss == "cross-entropy":
        units = units[:, 1] - np.logaddexp(units[:, 0], units[:, 1])
    np.testing.assert_allclose(units, own, atol=1e-5)


@pytest.mark.parametrize("tokenizer", ["tokenizer.json", "vocab.txt"])
def test_a_monoberts_limit_is_kept_where_its_start_names_none(
    tiny_mono, tmp_path, opened, tokenizer
):
    folder = shutil.copytree(tiny_mono, tmp_path / "mono")
    if tokenizer == "vocab.txt":
        vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
        words = sorted(vocabulary, key=vocabulary.__getitem__)
        (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in words))
        (folder / "tokenizer.json").unlink()
    told = {"query_limit": None, "total_limit": 17}
    body = json.loads((folder / "raypipe.json").read_text()) | told
    (folder / "raypipe.json").write_text(json.dumps(body))
    model = resolve_model(str(folder))
    add_peer_files(folder, model.conventions, model)
    queries = ["rank", "Lease shard zebra " * 5]
    place = np.repeat(np.arange(2), len(TEXTS)), np.tile(np.arange(len(TEXTS)), 2)
    ours = score_texts(model, queries, TEXTS, (*place, 0 * place[0]), device="cpu")
    pairs = [(queries[query], TEXTS[text]) for query, text in zip(*place, strict=True)]
    units = opened.CrossEncoder(str(folder), device="cpu").predict(pairs, convert_to_numpy=True)
    found = units[:, 1] - np.logaddexp(units[:, 0], units[:, 1])
    np.testing.assert_allclose(found, ours, atol=1e-5)


def test_a_card_says_what_was_trained_on_what_was_left_out_and_measured(
    small_recipe, train, tmp_path
):
    trained = train(small_recipe(), tmp_path / "out")
    card = card_of(trained)
    table = (tmp_path / "out" / "table.md").read_text()
    assert card.startswith("---\nlibrary_name: sentence-transformers\n")
    for line in table.splitlines():
        assert line in card
    made = json.loads((trained.model / "raypipe.json").read_text())["made_by"]
    for part in (made["start_sha256"], f"of {made['steps']}", made["loss"], f"seed {made['seed']}"):
        assert part in card
    assert "guard" in card


def test_a_model_with_segments_for_passages_says_that_others_cannot_open_it(
    small_recipe, train, tiny_model, tmp_path
):
    model = {"start": str(tiny_model), "preset": "repbert", "total_limit": None}
    model |= {"query_limit": 20, "passage_limit": 40}
    body = {"model": model, "loss": {"name": "info-nce"}, "steps": 4}
    trained = train(small_recipe(**body), tmp_path / "out")
    card = card_of(trained)
    assert "sentence-transformers cannot open it" in card and "library_name: raypipe" in card
    assert not (trained.model / "modules.json").exists()


def test_a_folder_without_a_tokenizers_settings_gets_the_limit_and_its_config_is_kept(
    tiny_model, tmp_path
):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    start = resolve_model(str(tiny_model))
    add_peer_files(tmp_path, PRESETS["minilm"], start)
    assert json.loads((tmp_path / "config.json").read_text()) == {"model_type": "bert"}
    settings = tmp_path / "tokenizer_config.json"
    assert json.loads(settings.read_text()) == {"model_max_length": 256}
    settings.write_text('{"model_max_length": 512, "do_lower_case": true}')
    add_peer_files(tmp_path, PRESETS["minilm"], start)
    assert json.loads(settings.read_text()) == {"model_max_length": 256, "do_lower_case": True}
