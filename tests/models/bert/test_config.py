from model_parts import CONFIG

from raypipe.models.bert.config import config_problems, converted_config


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


def test_a_converted_config_says_what_the_tensors_say():
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
