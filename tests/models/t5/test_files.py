"""What config.json of a T5 must say, its tensors' names, and its sizes under BERT's keys."""

import json

import pytest
from tiny_t5 import SIZES, VERSIONS, make_tiny_t5

from raypipe.errors import InputError
from raypipe.models.convert.describe import describe
from raypipe.models.family import family_of
from raypipe.models.folder.model_folder import resolve_model
from raypipe.models.whole.files import reads_prompts, start_of

FILES = family_of({"model_type": "t5"}).files
CONFIG = {"model_type": "t5", "vocab_size": 90, "decoder_start_token_id": 0, **SIZES}


def changed(folder, **fields):
    body = json.loads((folder / "config.json").read_text()) | fields
    body = {name: value for name, value in body.items() if value != "gone"}
    (folder / "config.json").write_text(json.dumps(body))


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"d_ff": "gone"}, "d_ff: expected a count, found nothing"),
        ({"vocab_size": "gone"}, "vocab_size: expected a count, found nothing"),
        ({"d_model": "wide"}, "refused by transformers"),
        ({"feed_forward_proj": "twice-gated-gelu"}, "refused by transformers"),
        ({"is_encoder_decoder": False}, "is_encoder_decoder: expected true, found false"),
        (
            {"decoder_start_token_id": 90},
            "decoder_start_token_id: expected a word piece, 0 to 89, found 90",
        ),
        ({"decoder_start_token_id": -1}, "0 to 89, found -1"),
        ({"decoder_start_token_id": "<pad>"}, "0 to 89, found '<pad>'"),
        ({"decoder_start_token_id": True}, "0 to 89, found True"),
        ({"num_layers": 0}, "num_layers: expected 1 to 1000, found 0"),
        ({"num_decoder_layers": 10**9}, "num_decoder_layers: expected 1 to 1000, found 1000000000"),
        ({"num_layers": 1}, "block.1.layer.0.SelfAttention.q.weight: no such tensor in a model of"),
        ({"num_layers": 3}, "lacks the tensor encoder.block.2.layer.0.SelfAttention.q.weight"),
        ({"num_heads": 2}, "relative_attention_bias.weight: config.json says [32, 2], the check"),
        (
            {"feed_forward_proj": "gated-gelu", "is_gated_act": "gone", "dense_act_fn": "gone"},
            "encoder.block.0.layer.1.DenseReluDense.wi.weight: no such tensor in a model of",
        ),
        ({"pad_token_id": 90}, "pad_token_id: expected a word piece, 0 to 89, found 90"),
        ({"auto_map": {"AutoModel": "own.Model"}}, "found code of the model's own"),
    ],
)
def test_a_config_that_cannot_be_computed_is_refused_before_any_work(tmp_path, fields, problem):
    make_tiny_t5(tmp_path / "m")
    changed(tmp_path / "m", **fields)
    with pytest.raises(InputError) as caught:
        resolve_model(str(tmp_path / "m"))
    assert all(told.startswith(str(tmp_path / "m")) for told in caught.value.problems)
    assert problem in str(caught.value)


def test_all_problems_of_a_config_are_told_at_once():
    bad = {"model_type": "t5", "vocab_size": 90, "is_encoder_decoder": False}
    told = FILES.config_problems(bad | {"decoder_start_token_id": 90})
    assert len(told) == 5 + 1 + 1


@pytest.mark.parametrize(
    ("fields", "start"),
    [
        ({}, 0),
        ({"pad_token_id": 3}, 3),
        ({"decoder_start_token_id": None, "pad_token_id": 3}, 3),
        ({"decoder_start_token_id": None, "pad_token_id": None}, 0),
        ({"decoder_start_token_id": 0, "pad_token_id": 3}, 0),
        ({"decoder_start_token_id": 5, "pad_token_id": 3}, 5),
    ],
)
def test_the_decoder_begins_with_its_own_token_or_else_with_padding(fields, start):
    assert start_of(fields) == start


def test_a_t5_and_an_mt5_read_prompts():
    found = [reads_prompts({"model_type": kind}) for kind in ("t5", "mt5", "bert", "bart")]
    assert found == [True, True, False, False]
    assert not reads_prompts({})


def test_names_of_other_programs_and_copies_of_the_table_are_left_out():
    early = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    names = {
        "shared.weight": "shared.weight",
        "encoder.block.0.layer.0.SelfAttention.q.weight": None,
        "decoder.final_layer_norm.weight": None,
        "encoder.embed_tokens.weight": None,
        early: None,
        "value_head.weight": None,
        "lm_head.weight": None,
    }
    found = FILES.canonical_names(names)
    assert found.unused == sorted([early, "encoder.embed_tokens.weight", "value_head.weight"])
    assert all(source.name == name for name, source in found.found.items())
    assert len(found.found) == 4 and found.twice == []
    copies = FILES.canonical_names(["decoder.embed_tokens.weight", "encoder.embed_tokens.weight"])
    assert copies.found["shared.weight"].name == "encoder.embed_tokens.weight"
    assert copies.unused == ["decoder.embed_tokens.weight"]


@pytest.mark.parametrize(
    ("fields", "head"),
    [
        ({}, False),
        (VERSIONS["1.0"], False),
        (VERSIONS["1.1"], True),
        ({"tie_word_embeddings": True, "scale_decoder_outputs": False}, True),
    ],
)
def test_version_1_1_has_a_head_of_its_own(fields, head):
    shapes = FILES.expected_shapes(CONFIG | fields, num_labels=2)
    assert ("lm_head.weight" in shapes) == head
    assert shapes["shared.weight"] == (90, 32)
    assert shapes["decoder.block.1.layer.1.EncDecAttention.k.weight"] == (32, 32)
    assert not [name for name in shapes if "embed_tokens" in name]


def test_an_mt5_may_do_without_a_head_of_its_own():
    files = family_of({"model_type": "mt5"}).files
    config = CONFIG | {"model_type": "mt5", "tie_word_embeddings": False}
    assert "lm_head.weight" not in files.expected_shapes(config, num_labels=2)


@pytest.mark.parametrize(
    ("stated", "positions"), [({}, 512), ({"n_positions": 1024}, 512), ({"n_positions": 40}, 40)]
)
def test_inputs_are_as_long_as_those_it_was_trained_with(tmp_path, stated, positions):
    assert FILES.num_positions(CONFIG | stated) == positions
    if stated == {"n_positions": 40}:
        make_tiny_t5(tmp_path / "m")
        changed(tmp_path / "m", **stated)
        found = describe(str(tmp_path / "m"), None)
        told = f"{tmp_path / 'm'}: the settings allow 48 tokens, the model has 40 positions"
        assert found.problems == [told]


def test_an_inner_size_stands_for_gates_and_wider_heads():
    plain = FILES.as_bert(CONFIG)
    assert (plain["hidden_size"], plain["num_hidden_layers"]) == (32, 2)
    assert (plain["num_attention_heads"], plain["intermediate_size"]) == (4, 64)
    gated = CONFIG | {"feed_forward_proj": "gated-gelu", "d_kv": 16}
    # 4 * 32 * 64 + 3 * 32 * 64 products, as 4 * 32 * 32 + 2 * 32 * 160
    assert FILES.as_bert(gated)["intermediate_size"] == 160


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_model_show_has_its_sizes_and_no_problem(tmp_path, version):
    make_tiny_t5(tmp_path / "m", version=version)
    found = describe(str(tmp_path / "m"), None)
    assert found.problems == [] == found.missing == found.unused
    assert found.architecture["hidden"] == 32 and found.architecture["layers"] == 2
    assert found.conventions["prompt"].startswith("Query:") and found.kind == "mono"


def test_it_opens_as_transformers_class_of_its_kind():
    assert FILES.architecture(head=True) == "T5ForConditionalGeneration"
    mt5 = family_of({"model_type": "mt5"}).files
    assert mt5.architecture(head=True) == "MT5ForConditionalGeneration"
