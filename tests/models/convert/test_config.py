import json

import pytest
from model_parts import CONFIG

from raypipe.errors import InputError
from raypipe.models.convert.convert import read_config


def test_a_config_is_read_from_either_file_and_refused_by_its_values(tmp_path):
    (tmp_path / "bert_config.json").write_text(json.dumps(CONFIG))
    assert read_config(tmp_path) == ("bert_config.json", CONFIG)
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG, "vocab_size": 10}))
    assert read_config(tmp_path)[0] == "config.json"
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG, "vocab_size": 0}))
    with pytest.raises(InputError, match="vocab_size"):
        read_config(tmp_path)
    with pytest.raises(InputError, match="no config.json or bert_config.json"):
        read_config(tmp_path / "x")
