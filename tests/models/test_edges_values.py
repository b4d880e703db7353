"""A model's conventions, names, shapes and products at their bounds, by hand."""

import json
import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from raypipe.errors import InputError
from raypipe.models.bert.config import config_problems, converted_config
from raypipe.models.bert.heads import read_head
from raypipe.models.bert.tensor_names import (
    canonical_name,
    canonical_names,
    expected_shapes,
    is_kernel,
    saved_name,
)
from raypipe.models.bert.weights import read_bert
from raypipe.models.convert.config import read_config
from raypipe.models.convert.tensor_checks import (
    limit_problems,
    segment_problems,
    tensor_problems,
    units_of,
)
from raypipe.models.folder.conventions import Conventions, PairConventions
from raypipe.models.folder.cross_encoder import is_cross_encoder, num_labels_of
from raypipe.models.folder.evidence import Evidence, read_object, read_prompts, token_limit
from raypipe.models.folder.presets import PRESETS, conventions_of, conventions_problems
from raypipe.models.packed import attend_by_length, attend_freely, first_tokens, linear, pool
from raypipe.models.segments import with_third_segment

ENCODER = Conventions(
    pooling="mean", normalise=False, query_segment=0, passage_segment=1, query_limit=3,
    passage_limit=6,
)  # fmt: skip
MONO = PairConventions(
    kind="mono", query_limit=3, passage_limit=None, total_limit=16, relevant_label=1,
    score="log-probability",
)  # fmt: skip
DUO = replace(MONO, kind="duo", score="probability", passage_limit=4)


def test_presets_are_those_of_the_papers_and_their_code():
    repbert, minilm = PRESETS["repbert"], PRESETS["minilm"]
    assert (repbert.pooling, repbert.normalise, repbert.segment("passage")) == ("mean", False, 1)
    assert (repbert.limit("query"), repbert.limit("passage")) == (20, 256)
    assert (minilm.pooling, minilm.normalise, minilm.segment("passage")) == ("mean", True, 0)
    assert (minilm.limit("query"), minilm.limit("passage")) == (254, 254)
    limits = {
        name: (each.query_limit, each.passage_limit, each.total_limit)
        for name, each in PRESETS.items()
        if isinstance(each, PairConventions)
    }
    assert limits == {
        "monobert": (64, None, 512),
        "monobert-reference": (62, None, 511),
        "monobert-longest-first": (None, None, 512),
        "duobert": (62, 223, 512),
        "duobert-reference": (62, None, 510),
    }
    for name, each in PRESETS.items():
        assert conventions_problems(each) == [], name
        if isinstance(each, PairConventions):
            assert each.relevant_label == 1 and each.num_passages == (2 if "duo" in name else 1)
            assert each.score == ("probability" if "duo" in name else "log-probability")


def test_sides_have_their_own_limit_segment_and_prefix():
    both = replace(ENCODER, query_prefix="q: ", passage_prefix="p: ")
    assert [both.limit("query"), both.limit("passage")] == [3, 6]
    assert [both.segment("query"), both.segment("passage")] == [0, 1]
    assert [both.prefix("query"), both.prefix("passage")] == ["q: ", "p: "]
    pair = replace(MONO, query_prefix="q: ", passage_prefix="p: ")
    assert [pair.prefix("query"), pair.prefix("passage")] == ["q: ", "p: "]
    assert "start_weights_saw" not in both.to_json() and "start_weights_saw" not in pair.to_json()
    assert both.to_json()["query_prefix"] == "q: " and pair.to_json()["total_limit"] == 16


@pytest.mark.parametrize(
    ("found", "field"),
    [
        (replace(ENCODER, kind="dense"), "kind"),
        (replace(ENCODER, pooling="max"), "pooling"),
        (replace(ENCODER, query_limit=0), "query_limit"),
        (replace(ENCODER, passage_limit=True), "passage_limit"),
        (replace(MONO, query_limit=0), "query_limit"),
        (replace(MONO, total_limit=4), "total_limit"),
        (replace(MONO, relevant_label=2), "relevant_label"),
        (replace(MONO, score="odds"), "score"),
        (replace(MONO, segment_row="one"), "segment_row"),
        (replace(DUO, score="raw"), "score"),
        (replace(DUO, query_limit=None, passage_limit=None), "query_limit"),
        (replace(MONO, query_limit=None, passage_limit=5), "passage_limit"),
        (replace(DUO, total_limit=14), "total_limit"),  # 3 + 2 + 2 * 5 = 15
        (replace(MONO, total_limit=6), "total_limit"),  # 3 + 2 + 2 = 7
        (replace(MONO, passage_limit=11), "total_limit"),  # 3 + 2 + 12 = 17
    ],
)
def test_conventions_that_feed_no_model_are_told_by_field(found, field):
    (problem,) = conventions_problems(found)
    assert problem.startswith(f"{field}: ")


@pytest.mark.parametrize(
    "found",
    [
        replace(ENCODER, pooling="cls", query_limit=1),
        replace(MONO, total_limit=7),
        replace(MONO, passage_limit=10),
        replace(MONO, query_limit=None, total_limit=5),
        replace(MONO, relevant_label=0),
        replace(MONO, relevant_label=None, score="raw"),
        replace(DUO, total_limit=15),
        replace(DUO, segment_row="copy"),
        replace(DUO, query_limit=1, passage_limit=None, total_limit=7),
    ],
)
def test_conventions_exactly_at_their_bounds_are_taken(found):
    assert conventions_problems(found) == []


def test_fields_are_read_beside_the_weights_and_records_passed_over(tmp_path):
    path = tmp_path / "raypipe.json"
    body = {"kind": "mono", "query_limit": 3, "passage_limit": None, "total_limit": 16}
    body |= {"relevant_label": 1, "score": "raw", "made_by": {"x": 1}, "base": "b"}
    path.write_text(json.dumps(body))
    assert conventions_of(tmp_path, None) == replace(MONO, score="raw")
    path.write_text(json.dumps({**body, "colour": "red"}))
    with pytest.raises(InputError, match="colour.*expected a JSON object with kind, query_limit"):
        conventions_of(tmp_path, None)
    for text in ("[1, 2]", "3", '"mono"'):
        path.write_text(text)
        with pytest.raises(InputError, match=r"raypipe\.json: expected a JSON object, found"):
            conventions_of(tmp_path, None)
    path.write_text("{")
    with pytest.raises(InputError, match=r"raypipe\.json: expected JSON, found"):
        conventions_of(tmp_path, None)
    for kind, found in ((None, "None"), ("Mono", "'Mono'"), (["mono"], r"\['mono'\]")):
        path.write_text(json.dumps({**body, "kind": kind}))
        with pytest.raises(InputError, match=f"kind: expected encoder, mono or duo, found {found}"):
            conventions_of(tmp_path, None)
    path.write_text(json.dumps({"base": "minilm"}))
    with pytest.raises(InputError, match="kind: expected encoder, mono or duo, found nothing"):
        conventions_of(tmp_path, None)
    with pytest.raises(InputError, match="did you mean monobert"):
        conventions_of(tmp_path, "monobrt")
    with pytest.raises(InputError, match="nothing says"):
        conventions_of(tmp_path / "nowhere", None)


# Names and shapes


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("bert.encoder.layer.3.output.dense.bias", "encoder.layer.3.output.dense.bias"),
        ("module.bert.pooler.dense.weight", "pooler.dense.weight"),
        ("embeddings.LayerNorm.gamma", "embeddings.LayerNorm.weight"),
        ("bert.embeddings.LayerNorm.beta", "embeddings.LayerNorm.bias"),
        ("classifier.weight", "classifier.weight"),
        ("output_bias", "classifier.bias"),
        ("bert/embeddings/token_type_embeddings:0", "embeddings.token_type_embeddings.weight"),
        ("bert/encoder/layer_11/output/dense/kernel", "encoder.layer.11.output.dense.weight"),
        ("bert/encoder/layer_0/output/LayerNorm/gamma:0",
         "encoder.layer.0.output.LayerNorm.weight"),
        ("bert/pooler/dense/bias", "pooler.dense.bias"),
        ("bert/pooler/dense/kernel/adam_m", None),
        ("global_step/x", None),
        ("cls.predictions.bias", None),
        ("bert.embeddings.position_ids", None),
        ("optimizer.state", None),
    ],
)  # fmt: skip
def test_names_of_every_writer_are_read(name, place):
    assert canonical_name(name) == place


def test_two_names_of_one_place_and_names_of_none_are_told():
    names = ["bert.pooler.dense.bias", "pooler.dense.bias", "x", "bert/pooler/dense/kernel"]
    found = canonical_names(names)
    assert found.twice == ["bert.pooler.dense.bias and pooler.dense.bias"]
    assert found.unused == ["x"] and set(found.found) == {
        "pooler.dense.bias",
        "pooler.dense.weight",
    }
    assert found.found["pooler.dense.weight"].transpose
    assert not found.found["pooler.dense.bias"].transpose
    assert is_kernel("a/kernel:0") and not is_kernel("a/bias") and not is_kernel("kernel")


CONFIG = {
    "model_type": "bert", "hidden_act": "gelu", "hidden_size": 4, "intermediate_size": 6,
    "max_position_embeddings": 16, "num_attention_heads": 2, "num_hidden_layers": 2,
    "type_vocab_size": 2, "vocab_size": 9, "layer_norm_eps": 1e-12,
}  # fmt: skip


def test_shapes_are_those_of_the_sizes():
    shapes = expected_shapes(CONFIG, num_labels=None)
    assert len(shapes) == 5 + 2 * 16
    assert shapes["embeddings.word_embeddings.weight"] == (9, 4)
    assert shapes["embeddings.position_embeddings.weight"] == (16, 4)
    assert shapes["embeddings.token_type_embeddings.weight"] == (2, 4)
    assert shapes["encoder.layer.1.intermediate.dense.weight"] == (6, 4)
    assert shapes["encoder.layer.1.intermediate.dense.bias"] == (6,)
    assert shapes["encoder.layer.1.output.dense.weight"] == (4, 6)
    assert shapes["encoder.layer.0.output.LayerNorm.weight"] == (4,)
    head = expected_shapes(CONFIG, num_labels=2)
    assert len(head) == len(shapes) + 4
    assert head["classifier.weight"] == (2, 4) and head["pooler.dense.weight"] == (4, 4)
    assert saved_name("pooler.dense.bias", head=False) == "pooler.dense.bias"
    assert saved_name("pooler.dense.bias", head=True) == "bert.pooler.dense.bias"
    assert saved_name("classifier.bias", head=True) == "classifier.bias"


def test_tensors_that_are_not_the_models_are_told():
    shapes = expected_shapes(CONFIG, num_labels=2)
    assert tensor_problems(shapes, CONFIG, 2) == []
    assert tensor_problems(shapes, CONFIG, None) == []  # an encoder may have a head
    lacking = {name: shape for name, shape in shapes.items() if "classifier" not in name}
    assert [p.split(": ")[1] for p in tensor_problems(lacking, CONFIG, 2)] == [
        "it has no head that scores pairs"
    ] * 2
    one = {**shapes, "classifier.weight": (1, 4), "classifier.bias": (1,)}
    assert "the head has 1 units, the conventions expect two units" in str(
        tensor_problems(one, CONFIG, 2)
    )
    assert "the head has 2 units, the conventions expect one" in str(
        tensor_problems(shapes, CONFIG, 1)
    )
    more = {**shapes, "encoder.layer.2.output.dense.bias": (4,)}
    assert tensor_problems(more, CONFIG, 2) == [
        "encoder.layer.2.output.dense.bias: no such tensor in a model of the sizes in config.json"
    ]
    other = {**shapes, "embeddings.word_embeddings.weight": (8, 4)}
    assert (
        "expected shape [9, 4] from config.json, found [8, 4]"
        in tensor_problems(other, CONFIG, 2)[0]
    )
    assert (units_of(ENCODER), units_of(MONO), units_of(replace(MONO, relevant_label=None))) == (
        None,
        2,
        1,
    )


@pytest.mark.parametrize(
    ("rows", "choice", "good"),
    [(2, "zero", True), (2, "copy", True), (2, None, False), (3, None, True), (3, "copy", False),
     (4, None, True), (1, None, False), (1, "zero", False), (2, "one", False), (3, "one", False)],
)  # fmt: skip
def test_a_third_segment_row_is_added_to_two_and_to_no_other_number(rows, choice, good):
    assert (segment_problems(rows, choice) == []) is good
    if choice != "one":
        duo = replace(DUO, segment_row=choice)
        assert (limit_problems(duo, CONFIG, rows) == []) is good


@pytest.mark.parametrize(
    ("conventions", "rows", "told"),
    [
        (replace(ENCODER, passage_limit=14), 2, []),
        (replace(ENCODER, passage_limit=15), 2, ["17 tokens, the model has 16"]),
        (replace(ENCODER, query_limit=15), 2, ["17 tokens, the model has 16"]),
        (ENCODER, 1, ["segment 1, the model has 1"]),
        (replace(ENCODER, passage_segment=0, query_segment=1), 1, ["segment 1"]),
        (replace(ENCODER, passage_segment=0), 1, []),
        (ENCODER, 0, []),
        (MONO, 2, []),
        (MONO, 1, ["segment 1"]),
        (replace(MONO, total_limit=17), 2, ["17 tokens"]),
    ],
)
def test_limits_and_segments_beyond_the_model_are_told(conventions, rows, told):
    found = limit_problems(conventions, CONFIG, rows)
    assert len(found) == len(told) and all(a in b for a, b in zip(told, found, strict=True))


def test_third_rows_are_zeros_or_copies_of_row_1():
    table = torch.tensor([[1.0, 2], [3, 4]])
    assert with_third_segment(table, "zero").tolist() == [[1, 2], [3, 4], [0, 0]]
    assert with_third_segment(table, "copy").tolist() == [[1, 2], [3, 4], [3, 4]]
    three = torch.arange(6.0).view(3, 2)
    assert with_third_segment(three, None) is three
    for bad in ((table, None), (three, "zero")):
        with pytest.raises(InputError):
            with_third_segment(*bad)


def test_another_architecture_or_size_is_refused_by_name():
    assert config_problems(CONFIG) == []
    assert (
        config_problems({**CONFIG, "is_decoder": False, "position_embedding_type": "absolute"})
        == []
    )
    for changed in (
        {"hidden_size": 0}, {"vocab_size": None}, {"hidden_act": "relu"},
        {"position_embedding_type": "relative_key"}, {"is_decoder": True},
        {"num_hidden_layers": "2"},
    ):  # fmt: skip
        (problem,) = config_problems({**CONFIG, **changed})
        assert problem.startswith(f"{next(iter(changed))}: expected")
    google = {name: value for name, value in CONFIG.items() if name != "model_type"}
    assert config_problems(google) == []
    assert len(config_problems({})) == 7


def test_a_converted_config_says_what_the_tensors_say(tmp_path):
    made = converted_config({**CONFIG, "extra": 1}, segment_rows=3, num_labels=2)
    assert made["type_vocab_size"] == 3 and made["architectures"] == [
        "BertForSequenceClassification"
    ]
    assert made["id2label"] == {"0": "LABEL_0", "1": "LABEL_1"}
    assert made["label2id"] == {"LABEL_0": 0, "LABEL_1": 1} and "extra" not in made
    assert list(made) == sorted(made) and made["layer_norm_eps"] == 1e-12
    without = {name: value for name, value in CONFIG.items() if name != "layer_norm_eps"}
    body = converted_config(
        {**without, "classifier_dropout": None}, segment_rows=2, num_labels=None
    )
    assert body["architectures"] == ["BertModel"] and "id2label" not in body
    assert body["layer_norm_eps"] == 1e-12 and "classifier_dropout" not in body
    (tmp_path / "bert_config.json").write_text(json.dumps(CONFIG))
    assert read_config(tmp_path) == ("bert_config.json", CONFIG)
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG, "vocab_size": 10}))
    assert read_config(tmp_path)[0] == "config.json"
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG, "vocab_size": 0}))
    with pytest.raises(InputError, match="vocab_size"):
        read_config(tmp_path)
    with pytest.raises(InputError, match="no config.json or bert_config.json"):
        read_config(tmp_path / "x")


@pytest.mark.parametrize(
    ("config", "units"),
    [({}, 2), ({"num_labels": 1}, 1), ({"num_labels": 0}, 0), ({"id2label": {"0": "a"}}, 1),
     ({"num_labels": 3, "id2label": {"0": "a"}}, 3), ({"id2label": {}}, 2)],
)  # fmt: skip
def test_units_of_a_head_are_stated_named_or_two(config, units):
    assert num_labels_of(config) == units


def test_a_cross_encoder_is_known_by_its_architecture():
    assert is_cross_encoder({"architectures": ["X", "BertForSequenceClassification"]})
    assert not is_cross_encoder({"architectures": ["BertModel"]}) and not is_cross_encoder({})


@pytest.mark.parametrize(
    ("stated", "longest", "positions", "expected"),
    [
        (7, 5, 9, 7), (None, 5, 9, 5), (None, 9, 9, 9), (None, 1e30, 9, 9), (None, None, 9, 9),
        (None, 5, None, 5), (None, None, None, None), (None, 8.0, 9, 8),
    ],
)  # fmt: skip
def test_the_longest_input_is_stated_or_the_lesser_of_two(
    tmp_path, stated, longest, positions, expected
):
    if stated is not None:
        (tmp_path / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": stated}))
    if longest is not None:
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({"model_max_length": longest}))
    config = {} if positions is None else {"max_position_embeddings": positions}
    assert token_limit(tmp_path, config)[0] == expected


@pytest.mark.parametrize(
    ("body", "query", "passage", "problems"),
    [
        ({}, "", "", 0),
        ({"prompts": {"query": "q", "passage": "p", "corpus": "c"}}, "q", "p", 0),
        ({"prompts": {"document": "d", "passage": "p"}}, "", "d", 0),
        ({"prompts": {"corpus": "c"}}, "", "c", 0),
        ({"prompts": {"query": None}}, "", "", 0),
        ({"prompts": {"query": "q"}, "default_prompt_name": "query"}, "q", "", 0),
        ({"prompts": {"other": "o"}, "default_prompt_name": "other"}, "", "", 2),
        ({"prompts": {"other": ""}, "default_prompt_name": "other"}, "", "", 0),
        ({"prompts": {}, "default_prompt_name": "other"}, "", "", 0),
    ],
)
def test_prompts_become_the_prefix_of_their_side(tmp_path, body, query, passage, problems):
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(body))
    found = Evidence()
    read_prompts(tmp_path, found)
    values = (found.values["query_prefix"] or "", found.values["passage_prefix"] or "")
    assert values == (query, passage) and len(found.problems) == problems
    (tmp_path / "config_sentence_transformers.json").write_text('{"prompts": ["x"]}')
    with pytest.raises(InputError, match="prompts: expected an object"):
        read_prompts(tmp_path, Evidence())
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(InputError, match="expected a JSON object, found list"):
        read_object(tmp_path / "list.json")
    assert read_object(tmp_path / "absent.json") == {}


# Products


GROUPS = [(2, 1), (1, 3), (2, 2)]


def test_sequences_begin_where_the_ones_before_end():
    assert first_tokens(GROUPS, "cpu").tolist() == [0, 1, 2, 5, 7]


def test_pooling_is_by_sequence():
    hidden = torch.arange(18.0).view(9, 2)
    mean = pool(hidden, GROUPS, pooling="mean", normalise=False)
    rows = [[0], [1], [2, 3, 4], [5, 6], [7, 8]]
    assert mean.tolist() == [hidden[own].mean(0).tolist() for own in rows]
    first = pool(hidden, GROUPS, pooling="cls", normalise=False)
    assert first.tolist() == [hidden[own[0]].tolist() for own in rows]
    unit = pool(hidden[1:], [(1, 8)], pooling="cls", normalise=True)
    assert unit[0].tolist() == pytest.approx([2 / math.sqrt(13), 3 / math.sqrt(13)])


@pytest.mark.parametrize("rows", [1, 15, 16, 17])
def test_a_product_adds_its_low_rank_update(rows):
    generator = torch.Generator().manual_seed(rows)
    x, w, b, down, up = (
        torch.randint(-3, 4, shape, generator=generator).float()
        for shape in ((rows, 5), (4, 5), (4,), (2, 5), (4, 2))
    )
    assert torch.equal(linear(x, (w, b)), x @ w.T + b)
    assert torch.equal(linear(x, (w, b, down, up)), x @ w.T + b + x @ down.T @ up.T)


@pytest.mark.parametrize("attend", [attend_by_length, attend_freely])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_is_within_each_sequence_and_head(attend, dtype):
    qkv = torch.randn(9, 12, generator=torch.Generator().manual_seed(1)).to(dtype)
    grown = qkv.clone().requires_grad_(dtype == torch.bfloat16)
    found = attend(grown, 2, GROUPS).float()
    place, expected = 0, []
    for count, length in GROUPS:
        for _ in range(count):
            own = qkv[place : place + length].float()
            place += length
            heads = []
            for head in range(2):
                q, k, v = (
                    own[:, 4 * part + 2 * head : 4 * part + 2 * head + 2] for part in range(3)
                )
                heads.append(torch.softmax(q @ k.T / math.sqrt(2), dim=1) @ v)
            expected.append(torch.cat(heads, dim=1))
    tolerance = 1e-5 if dtype == torch.float32 else 3e-2
    torch.testing.assert_close(found, torch.cat(expected), atol=tolerance, rtol=tolerance)
    threads = torch.get_num_threads()
    attend(qkv, 2, GROUPS)
    assert torch.get_num_threads() == threads


def tensors(prefix, units):
    generator = torch.Generator().manual_seed(3)
    shapes = expected_shapes(CONFIG, num_labels=units)
    return {
        (name if "classifier" in name else prefix + name): torch.randn(shape, generator=generator)
        for name, shape in shapes.items()
    }


@pytest.mark.parametrize("prefix", ["", "bert."])
@pytest.mark.parametrize(("units", "label"), [(1, None), (2, 0), (2, 1)])
def test_a_head_is_a_tanh_pooler_and_a_classifier(prefix, units, label):
    weights = tensors(prefix, units)
    first = torch.randn(3, 4)
    pooled = torch.tanh(
        F.linear(
            first, weights[f"{prefix}pooler.dense.weight"], weights[f"{prefix}pooler.dense.bias"]
        )
    )
    expected = F.linear(pooled, weights["classifier.weight"], weights["classifier.bias"])
    found = read_head(weights, relevant_label=label)
    assert found.num_units == units and found.classifier[0].shape == (16, 4)
    torch.testing.assert_close(found.logits(first), expected, atol=1e-6, rtol=1e-5)
    with pytest.raises(InputError, match=f"has {units} units"):
        read_head(weights, relevant_label=None if units == 2 else 1)


def test_every_missing_tensor_of_a_body_or_head_is_named():
    weights = tensors("bert.", 2)
    assert len(read_bert(weights, CONFIG).layers) == 2
    for name in ("encoder.layer.1.attention.self.key.bias", "embeddings.LayerNorm.weight"):
        weights.pop(f"bert.{name}")
    with pytest.raises(InputError) as caught:
        read_bert(weights, CONFIG)
    assert len(caught.value.problems) == 2
    weights.pop("bert.pooler.dense.bias"), weights.pop("classifier.weight")
    with pytest.raises(InputError) as caught:
        read_head(weights, relevant_label=1)
    assert len(caught.value.problems) == 2
    for changed in ({"model_type": "roberta"}, {"hidden_act": "relu"}):
        with pytest.raises(InputError, match="expected a BERT with gelu"):
            read_bert(weights, {**CONFIG, **changed})
