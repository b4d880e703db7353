"""Models that transformers computes give its own numbers, through the same code as BERT's."""

import json

import numpy as np
import pytest
import torch
import transformers
from drawn_models import (
    ENCODER,
    LIMIT,
    MONO,
    PACKED,
    POSITIONS,
    RENAMED,
    TEXTS,
    make,
    opened,
    theirs_of,
)
from safetensors.torch import load_file, save_file
from stage_inputs import parts_of

from raypipe.errors import InputError
from raypipe.models.convert.describe import describe
from raypipe.models.encoder import load_encoder
from raypipe.models.family import FAMILIES, family_of
from raypipe.models.folder.model_folder import open_tokenizer
from raypipe.models.scorer import load_scorer
from raypipe.models.whole.family import KINDS
from raypipe.models.whole.files import module_of
from raypipe.stages.texts.tokenize import refuse_other_inputs
from raypipe.text.inputs import taken
from raypipe.text.tokenize import tokenize_batch

DUO = {"kind": "duo", "query_limit": 8, "passage_limit": 8, "total_limit": 40,
       "relevant_label": 1, "score": "probability"}  # fmt: skip
EVERY = (*KINDS, *RENAMED)
"""With the relatives of BERT, which have further tests in a folder of their own."""
HALF = [*EVERY[::2], *(pytest.param(kind, marks=pytest.mark.slow) for kind in EVERY[1::2])]
"""The same, of which every other one is slow."""


def test_every_kind_is_a_family():
    assert set(KINDS) <= set(FAMILIES) and len(set(KINDS)) == len(KINDS)


@pytest.mark.parametrize("pooling", ["mean", pytest.param("cls", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", EVERY)
def test_vectors_of_every_length_are_those_of_transformers(tmp_path, kind, pooling):
    theirs = make(tmp_path, kind)
    model = opened(tmp_path, **ENCODER | {"pooling": pooling})
    flat, offsets = tokenize_batch(open_tokenizer(model), TEXTS, max_pieces=512)
    for side, limit in (("query", 8), ("passage", LIMIT)):
        found = load_encoder(model).encode(flat, offsets, side=side)
        for vector, text in zip(found, TEXTS, strict=True):
            states = theirs_of(tmp_path, theirs, text, limit=limit + 2).last_hidden_state[0]
            expected = states.mean(dim=0) if pooling == "mean" else states[0]
            np.testing.assert_allclose(vector, expected, atol=1e-5)


@pytest.mark.parametrize("units", [2, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", HALF)
def test_scores_of_pairs_are_those_of_transformers(tmp_path, kind, units):
    theirs = make(tmp_path, kind, units=units)
    model = opened(tmp_path, **MONO | {"relevant_label": None if units == 1 else 1})
    refuse_other_inputs(open_tokenizer(model), TEXTS, model)
    (texts,) = parts_of(model, TEXTS)
    size = len(TEXTS)
    queries, passages = np.divmod(np.arange(size * size), size)
    found = load_scorer(model).score(taken(texts, queries), [taken(texts, passages)])
    for score, query, passage in zip(found, queries, passages, strict=True):
        logits = theirs_of(tmp_path, theirs, TEXTS[query], TEXTS[passage], limit=POSITIONS)
        assert score == pytest.approx(
            float(logits.logits[0, -1]), abs=1e-5 if kind in PACKED else 2e-5
        )


def test_the_numerics_class_promises_no_bytes(tmp_path):
    make(tmp_path, "electra")
    assert load_encoder(opened(tmp_path, **ENCODER)).numerics.endswith("neighbours: unproven")


def test_low_precision_is_near_and_its_class_says_so(tmp_path):
    make(tmp_path, "electra")
    model = opened(tmp_path, **ENCODER)
    flat, offsets = tokenize_batch(open_tokenizer(model), TEXTS, max_pieces=512)
    exact = load_encoder(model).encode(flat, offsets, side="passage")
    low = load_encoder(model.in_precision("bf16"))
    found = low.encode(flat, offsets, side="passage")
    assert ", bf16" in low.numerics and not np.array_equal(found, exact)
    np.testing.assert_allclose(found, exact, atol=0.15)


@pytest.mark.parametrize("head", [False, True])
@pytest.mark.parametrize("kind", ["electra", "modernbert", *RENAMED])
def test_a_missing_tensor_is_named_before_any_work(tmp_path, kind, head):
    make(tmp_path, kind, units=2 if head else None)
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    lost = next(n for n in tensors if ".1." in n and n.endswith("weight"))
    del tensors[lost]
    save_file(tensors, file, metadata={"format": "pt"})
    why = "" if kind in RENAMED else ", which config.json says"
    with pytest.raises(InputError, match=f"lacks the tensor {lost}{why}"):
        opened(tmp_path, **(MONO if head else ENCODER))


def test_a_tensor_of_another_shape_is_named_with_both(tmp_path):
    make(tmp_path, "electra")
    body = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**body, "intermediate_size": 32}))
    with pytest.raises(
        InputError, match=r"config.json says \[32, 32\], the checkpoint has \[64, 32"
    ):
        opened(tmp_path, **ENCODER)


@pytest.mark.parametrize(
    ("kind", "prefix"), [(kind, "") for kind in (*KINDS, "qwen3")] + [("qwen3", "model.")]
)
def test_a_config_of_fewer_layers_than_the_weights_is_refused(tmp_path, kind, prefix):
    make(tmp_path, kind)
    file, path = tmp_path / "model.safetensors", tmp_path / "config.json"
    tensors = {f"{prefix}{name}": tensor for name, tensor in load_file(file).items()}
    save_file(tensors, file, metadata={"format": "pt"})
    opened(tmp_path, **ENCODER)
    body = json.loads(path.read_text())
    types = {"layer_types": body["layer_types"][:1]} if body.get("layer_types") else {}
    path.write_text(json.dumps({**body, "num_hidden_layers": 1, **types}))
    if kind == "albert":  # its layers are one
        opened(tmp_path, **ENCODER)
        return
    with pytest.raises(InputError, match=r"\.1\..*: no such tensor in a model of the sizes in"):
        opened(tmp_path, **ENCODER)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"num_hidden_layers": 0}, "num_hidden_layers: expected 1 to 1000, found 0"),
        ({"num_hidden_layers": 1001}, "num_hidden_layers: expected 1 to 1000, found 1001"),
        ({"num_attention_heads": -1}, "num_attention_heads: expected 1 or more, found -1"),
        ({"intermediate_size": 0}, "intermediate_size: expected 1 or more, found 0"),
    ],
)
def test_counts_that_no_model_has_are_refused_before_any_is_built(fields, told):
    for kind in ("electra", "qwen3"):
        config = {"model_type": kind, **fields}
        assert told in family_of(config).files.config_problems(config)


def test_an_encoder_may_lack_its_pooler_and_have_the_names_of_a_larger_model(tmp_path):
    theirs = make(tmp_path, "ernie")
    file = tmp_path / "model.safetensors"
    tensors = {f"ernie.{n}": t for n, t in load_file(file).items() if not n.startswith("pooler")}
    save_file(tensors | {"cls.x": torch.zeros(1)}, file, metadata={"format": "pt"})
    model = opened(tmp_path, **ENCODER)
    flat, offsets = tokenize_batch(open_tokenizer(model), TEXTS[:1], max_pieces=512)
    found = load_encoder(model).encode(flat, offsets, side="passage")
    expected = theirs_of(tmp_path, theirs, TEXTS[0], limit=POSITIONS).last_hidden_state[0]
    np.testing.assert_allclose(found[0], expected.mean(dim=0), atol=1e-5)


@pytest.mark.parametrize("kind", ["electra", "modernbert", "mpnet"])
def test_an_encoder_may_have_the_head_of_a_reranker(tmp_path, kind):
    theirs = make(tmp_path, kind, units=2).base_model
    model = opened(tmp_path, **ENCODER)
    flat, offsets = tokenize_batch(open_tokenizer(model), TEXTS[:1], max_pieces=512)
    found = load_encoder(model).encode(flat, offsets, side="passage")
    expected = theirs_of(tmp_path, theirs, TEXTS[0], limit=POSITIONS).last_hidden_state[0]
    np.testing.assert_allclose(found[0], expected.mean(dim=0), atol=1e-5)


@pytest.mark.parametrize("architectures", [None, ["ElectraModel"]])
def test_a_reranker_is_known_by_its_head_whatever_its_architecture_says(tmp_path, architectures):
    make(tmp_path, "electra", units=2)
    model = opened(tmp_path, **MONO)
    query, passage = parts_of(model, TEXTS, TEXTS[::-1])
    expected = load_scorer(model).score(query, [passage])
    body = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**body, "architectures": architectures}))
    found = load_scorer(opened(tmp_path, **MONO)).score(query, [passage])
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("kind", ["electra", *PACKED])
def test_an_encoder_has_no_head_and_a_head_of_other_units_is_refused(tmp_path, kind):
    make(tmp_path / "encoder", kind)
    with pytest.raises(InputError, match="no head that scores pairs"):
        load_scorer(opened(tmp_path / "encoder", **MONO))
    make(tmp_path / "two", kind, units=2)
    with pytest.raises(InputError, match="2 units, the settings .relevant_label: null. expect 1"):
        load_scorer(opened(tmp_path / "two", **MONO | {"relevant_label": None}))


@pytest.mark.parametrize("kind", EVERY)
def test_limits_end_at_the_last_position(tmp_path, kind):
    make(tmp_path, kind)
    model = opened(tmp_path, **ENCODER)
    flat = np.full(LIMIT, 7, np.uint16)
    load_encoder(model).encode(flat, np.array([0, LIMIT]), side="passage")
    too_long = ENCODER | {"passage_limit": LIMIT + 1}
    with pytest.raises(
        InputError, match=f"allow {POSITIONS + 1} tokens, the model has {POSITIONS}"
    ):
        load_encoder(opened(tmp_path, **too_long))


def test_a_duobert_is_refused(tmp_path):
    make(tmp_path, "electra", units=2)
    with pytest.raises(InputError, match="a duoBERT model has three segments; name a BERT"):
        load_scorer(opened(tmp_path, **DUO))


def test_code_in_the_folder_and_values_that_transformers_refuses_are_refused(tmp_path):
    files = family_of({"model_type": "electra"}).files
    code = {"model_type": "electra", "auto_map": {"AutoModel": "own.Model"}}
    assert "found code of the model's own" in files.config_problems(code)[0]
    bad = files.config_problems({"model_type": "electra", "hidden_size": "wide"})
    assert bad and "refused by transformers" in bad[0]
    two = {"model_type": "deberta-v2", "type_vocab_size": 2}
    told = family_of(two).files.config_problems(two)
    assert told == ["type_vocab_size: expected 0, found 2"]
    decoder = {"model_type": "electra", "is_decoder": True}
    assert files.config_problems(decoder) == ["is_decoder: expected false, found true"]


def test_a_module_that_cannot_be_made_or_lacks_a_weight_is_refused_with_every_name(tmp_path):
    make(tmp_path, "electra")
    config = json.loads((tmp_path / "config.json").read_text())
    tensors = load_file(tmp_path / "model.safetensors")
    names = [f"encoder.layer.1.attention.self.{part}.bias" for part in ("query", "key")]
    lost = {name for name in tensors if name.endswith(tuple(names))}
    kept = {name: tensor for name, tensor in tensors.items() if name not in lost}
    with pytest.raises(InputError) as caught:
        module_of(config, kept, head=False)
    assert caught.value.problems == [f"the checkpoint lacks the tensor {name}" for name in names]
    whole = module_of(config, tensors, head=False)
    assert not whole.training and whole.dtype == torch.float32
    with pytest.raises(InputError, match=r"config\.json: refused by transformers: .*no-such-act"):
        module_of({**config, "hidden_act": "no-such-act"}, tensors, head=False)


def test_model_show_tells_of_code_in_the_folder_with_all_else(tmp_path):
    make(tmp_path, "electra")
    (tmp_path / "raypipe.json").write_text(json.dumps({**ENCODER, "pooling": "sum"}))
    body = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**body, "auto_map": {"AutoModel": "a.B"}}))
    problems = describe(str(tmp_path), None).problems
    assert any("pooling: expected mean" in problem for problem in problems)
    assert any("found code of the model's own" in problem for problem in problems)


def test_it_is_not_trained_or_converted_and_the_message_says_what_it_is_for():
    files = family_of({"model_type": "mpnet"}).files
    for call in (
        lambda: files.trained_names([], head=True),
        lambda: files.linear_names({}, head=True),
        lambda: files.converted_config({}, segment_rows=1, num_labels=None),
    ):
        with pytest.raises(InputError, match="model_type mpnet: .*encoded with and scored with"):
            call()


def test_the_version_of_transformers_and_every_value_decide_the_fingerprint(tmp_path):
    make(tmp_path, "electra")
    found = opened(tmp_path, **ENCODER).forward_config()
    assert found["transformers"] == transformers.__version__
    assert found["embedding_size"] == 16 and "transformers_version" not in found


@pytest.mark.parametrize("units", [None, 2])
@pytest.mark.parametrize("kind", EVERY)
def test_model_show_has_its_sizes_and_no_problem(tmp_path, kind, units):
    make(tmp_path, kind, units=units)
    for body in [ENCODER] if units is None else [ENCODER, MONO]:
        (tmp_path / "raypipe.json").write_text(json.dumps(body))
        found = describe(str(tmp_path), None)
        assert found.problems == [] == found.missing and found.architecture["hidden"] == 32


def test_model_show_names_tensors_of_other_heads_as_unused(tmp_path):
    make(tmp_path, "electra")
    file, other = tmp_path / "model.safetensors", "discriminator_predictions.dense.bias"
    save_file(load_file(file) | {other: torch.zeros(1)}, file, metadata={"format": "pt"})
    (tmp_path / "raypipe.json").write_text(json.dumps(ENCODER))
    found = describe(str(tmp_path), None)
    assert found.problems == [] and found.unused == [other]


def test_a_tokenizer_that_adds_nothing_makes_no_layout(tmp_path):
    make(tmp_path, "electra")
    tokens = open_tokenizer(opened(tmp_path, **ENCODER))
    tokens.post_processor = None
    with pytest.raises(InputError, match="do not begin with one special token"):
        family_of({"model_type": "electra"}).layout(tokens, (0,))
