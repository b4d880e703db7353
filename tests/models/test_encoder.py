"""The packed forward: transformers' numbers, one text at a time."""

import shutil

import numpy as np
import pytest
import tiny
import torch
from safetensors.torch import load_file, save_file
from transformers import BertModel

import raypipe
from raypipe.errors import InputError
from raypipe.models.convert.describe import describe
from raypipe.models.folder.model_folder import open_tokenizer, resolve_model
from raypipe.models.load import load_encoder
from raypipe.text.tokenize import tokenize_batch

RNG = np.random.default_rng(7)


WORDS = ["lease", "shards", "rank", "zebra", "querying", "of", "passages", "running", "é", "🦓"]


TEXTS = ["", "a", " "] + [
    " ".join(RNG.choice(WORDS, size)) for size in [1, 2, 3, 5, 8, 8, 8, 13, 21, 34, 55, 200, 1000]
]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return resolve_model(str(tiny.make_tiny_bert(tmp_path_factory.mktemp("m") / "tiny")))


def pieces(model, texts):
    return tokenize_batch(open_tokenizer(model), texts, max_pieces=512)


def reference(model, texts, side):
    """One text at a time through transformers' own forward, fp32."""
    bert = BertModel.from_pretrained(model.folder, attn_implementation="eager").eval()
    tokenizer = open_tokenizer(model)
    conventions = model.conventions
    rows = []
    for text in texts:
        ids = tokenizer.encode(text, add_special_tokens=False).ids[: conventions.limit(side)]
        row = torch.tensor([[tokenizer.token_to_id("[CLS]"), *ids, tokenizer.token_to_id("[SEP]")]])
        segments = torch.full_like(row, conventions.segment(side))
        with torch.inference_mode():
            hidden = bert(row, token_type_ids=segments).last_hidden_state[0]
        vector = {"mean": hidden.mean(0), "cls": hidden[0], "max": hidden.amax(0)}.get(
            conventions.pooling, hidden[-1]
        )
        rows.append(
            torch.nn.functional.normalize(vector, dim=0) if conventions.normalise else vector
        )
    return torch.stack(rows).numpy()


@pytest.mark.parametrize("side", ["query", "passage"])
@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "last"])
@pytest.mark.parametrize("normalise", [False, True])
def test_equals_one_text_at_a_time_on_every_length(tmp_path, side, pooling, normalise):
    folder = tiny.make_tiny_bert(tmp_path / "m", pooling=pooling, normalise=normalise)
    model = resolve_model(str(folder))
    found = load_encoder(model).encode(*pieces(model, TEXTS), side=side)
    np.testing.assert_allclose(found, reference(model, TEXTS, side), atol=1e-5)


def test_packaged_model_equals_transformers_and_its_fp16_is_the_nearest(model):
    minilm = resolve_model("minilm")
    found = load_encoder(minilm).encode(*pieces(minilm, TEXTS), side="passage")
    expected = reference(minilm, TEXTS, "passage")
    np.testing.assert_allclose(found, expected, atol=1e-5)
    stored, nearest = found.astype(np.float16), expected.astype(np.float16)
    # Where they differ, the value lies within 1e-5 of the boundary between the two.
    differ = stored != nearest
    middle = (stored.astype(np.float64) + nearest.astype(np.float64)) / 2
    assert (np.abs(expected - middle)[differ] < 1e-5).all()


def test_beats_name_every_row_before_it_is_computed(model):
    told: list[int] = []
    load_encoder(model).encode(*pieces(model, TEXTS), side="query", beat=told.extend)
    assert sorted(told) == list(range(len(TEXTS)))


def test_vectors_that_are_not_finite_are_an_error_that_names_the_rows(tmp_path):
    folder = tiny.make_tiny_bert(tmp_path / "m")
    weights = load_file(folder / "model.safetensors")
    zebra = open_tokenizer(resolve_model(str(folder))).token_to_id("zebra")
    weights["embeddings.word_embeddings.weight"][zebra] = float("nan")
    save_file(weights, folder / "model.safetensors")
    model = resolve_model(str(folder))
    with pytest.raises(ArithmeticError, match=r"1 rows.*\[1\]"):
        load_encoder(model).encode(*pieces(model, ["a", "zebra", "run"]), side="passage")


def test_a_checkpoint_with_the_prefix_of_repbert_gives_the_same_vectors(tmp_path, model):
    folder = tiny.make_tiny_bert(tmp_path / "m")
    weights = load_file(folder / "model.safetensors")
    save_file(
        {f"bert.{name}": tensor for name, tensor in weights.items()}, folder / "model.safetensors"
    )
    found = load_encoder(resolve_model(str(folder))).encode(*pieces(model, TEXTS), side="query")
    plain = load_encoder(model).encode(*pieces(model, TEXTS), side="query")
    assert np.array_equal(found, plain)


def test_missing_tensors_are_all_named(tmp_path):
    folder = tiny.make_tiny_bert(tmp_path / "m")
    weights = load_file(folder / "model.safetensors")
    gone = ["embeddings.LayerNorm.bias", "encoder.layer.1.output.dense.weight"]
    save_file({n: t for n, t in weights.items() if n not in gone}, folder / "model.safetensors")
    with pytest.raises(InputError) as told:
        load_encoder(resolve_model(str(folder)))
    assert all(any(name in problem for problem in told.value.problems) for name in gone)


def test_conventions_beyond_the_model_are_refused(tmp_path):
    folder = tiny.make_tiny_bert(tmp_path / "m", segments=1, passage_limit=100)
    with pytest.raises(InputError) as told:
        load_encoder(resolve_model(str(folder)))
    assert len(told.value.problems) == 2


LONG = "zebra " * 100
"""More word pieces than the 64 positions of the tiny models."""


@pytest.mark.parametrize("side", ["query", "passage"])
def test_an_encoders_limit_leaves_room_for_the_two_specials(tiny, tmp_path, side):
    """64 positions: 62 pieces fit with [CLS] and [SEP], 63 and 64 do not."""
    limits = {"query_limit": 20, "passage_limit": 20, f"{side}_limit": 62}
    model = resolve_model(str(tiny.make_tiny_bert(tmp_path / "62", **limits)))
    flat, offsets = tokenize_batch(open_tokenizer(model), [LONG], max_pieces=512)
    assert len(flat) > 64
    vectors = load_encoder(model).encode(flat, offsets, side=side)
    assert vectors.shape == (1, 32) and np.isfinite(vectors).all()
    for limit in (63, 64):
        limits[f"{side}_limit"] = limit
        folder = tiny.make_tiny_bert(tmp_path / str(limit), **limits)
        with pytest.raises(InputError, match=f"allow {limit + 2} tokens, the model has 64 pos"):
            load_encoder(resolve_model(str(folder)))


def test_tensors_by_the_first_berts_names_are_those_of_today(tiny_model, tmp_path):
    folder = shutil.copytree(tiny_model, tmp_path / "first")
    file = folder / "model.safetensors"
    first = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    tensors = {}
    for name, tensor in load_file(file).items():
        end = next((each for each in first if name.endswith(each)), "")
        tensors[name.removesuffix(end) + first.get(end, "")] = tensor
    assert sum(name.endswith(("gamma", "beta")) for name in tensors) == 10
    save_file(tensors, file)
    texts = ["a lease", "the zebra"]
    found, own = (raypipe.encode(texts, model=place) for place in (folder, tiny_model))
    assert np.array_equal(found, own)
    described = describe(str(folder), None)
    assert described.problems == [] and described.missing == []
