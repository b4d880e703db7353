import json

import pytest
from model_parts import CONFIG

from raypipe.errors import InputError
from raypipe.models.convert.config import converted_config, read_config


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
