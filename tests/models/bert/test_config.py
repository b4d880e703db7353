from model_parts import CONFIG

from raypipe.models.bert.family import FAMILY

config_problems, own_problems = FAMILY.files.config_problems, FAMILY.files.own_problems
converted_config, decisive = FAMILY.files.converted_config, FAMILY.files.decisive


def test_another_architecture_or_size_is_refused_by_name():
    assert config_problems(CONFIG) == []
    assert (
        config_problems({**CONFIG, "is_decoder": False, "position_embedding_type": "absolute"})
        == []
    )
    for changed in (
        {"hidden_size": 0}, {"vocab_size": None}, {"num_hidden_layers": "2"},
        {"position_embedding_type": "relative_key"},
    ):  # fmt: skip
        (problem,) = config_problems({**CONFIG, **changed})
        assert problem.startswith(f"{next(iter(changed))}: expected")
    for variant in ({"hidden_act": "relu"}, {"is_decoder": True}):
        assert config_problems({**CONFIG, **variant}) == []
        (problem,) = own_problems({**CONFIG, **variant})
        assert problem.startswith(f"{next(iter(variant))}: expected")
    google = {name: value for name, value in CONFIG.items() if name != "model_type"}
    assert config_problems(google) == []
    assert len(config_problems({})) == 7


def test_a_converted_config_says_what_the_tensors_say():
    made = converted_config({**CONFIG, "extra": 1}, segment_rows=3, num_labels=2)
    assert made["type_vocab_size"] == 3 and made["architectures"] == [
        "BertForSequenceClassification"
    ]
    assert made["id2label"] == {"0": "LABEL_0", "1": "LABEL_1"}
    assert made["label2id"] == {"LABEL_0": 0, "LABEL_1": 1} and made["extra"] == 1
    assert list(made) == sorted(made) and made["layer_norm_eps"] == 1e-12
    without = {name: value for name, value in CONFIG.items() if name != "layer_norm_eps"}
    body = converted_config(
        {**without, "classifier_dropout": None}, segment_rows=2, num_labels=None
    )
    assert body["architectures"] == ["BertModel"] and "id2label" not in body
    assert body["layer_norm_eps"] == 1e-12 and "classifier_dropout" not in body


def test_values_of_a_config_at_their_bounds():
    for fields, told in [
        ({"layer_norm_eps": 0}, ["layer_norm_eps: expected a number between 0 and 1, found 0"]),
        ({"layer_norm_eps": 1}, ["layer_norm_eps: expected a number between 0 and 1, found 1"]),
        ({"layer_norm_eps": True}, ["layer_norm_eps: expected a number"]),
        ({"layer_norm_eps": 0.999}, []),
        ({"initializer_range": True}, ["initializer_range: expected a number, found True"]),
        ({"initializer_range": 1}, []),
        ({"num_attention_heads": 3}, ["num_attention_heads: expected a divisor of hidden_size 4"]),
        ({"num_attention_heads": 4}, []),
        ({"num_attention_heads": 3, "layer_norm_eps": 2}, ["layer_norm_eps: "]),
        ({"num_hidden_layers": 1000}, []),
        ({"num_hidden_layers": 1001}, ["num_hidden_layers: expected a count of 1,000 at most"]),
        ({"hidden_size": 0}, ["hidden_size: expected a count, found 0"]),
        ({"vocab_size": 1}, []),
    ]:
        found = own_problems({**CONFIG, **fields})
        assert len(found) == len(told)
        assert all(problem.startswith(words) for problem, words in zip(found, told, strict=True))


def test_what_a_config_must_name_and_what_it_may_leave_out():
    without = {n: v for n, v in CONFIG.items() if n not in ("model_type", "hidden_act")}
    remedy = "raypipe model convert FOLDER --out DIR writes a folder that states it"
    for problem, told in zip(
        own_problems(without),
        ("model_type: expected bert, found none; ", "hidden_act: expected gelu, found none; "),
        strict=True,
    ):
        assert problem.startswith(told + remedy)
    found = decisive({**CONFIG, "layer_norm_eps": 1, "dropout": 0.1})
    assert found["position_embedding_type"] == "absolute" and "dropout" not in found
    assert type(found["layer_norm_eps"]) is float and len(found) == 11
    relative = decisive({**CONFIG, "position_embedding_type": "other"})
    assert relative["position_embedding_type"] == "other"
