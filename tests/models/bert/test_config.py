from model_parts import CONFIG

from raypipe.models.bert.config import config_problems


def test_another_architecture_or_size_is_refused_by_name():
    assert config_problems(CONFIG) == []
    assert (
        config_problems({**CONFIG, "is_decoder": False, "position_embedding_type": "absolute"})
        == []
    )
    for changed in (
        {"model_type": "roberta"}, {"hidden_size": 0}, {"vocab_size": None}, {"hidden_act": "relu"},
        {"position_embedding_type": "relative_key"}, {"is_decoder": True},
        {"num_hidden_layers": "2"},
    ):  # fmt: skip
        (problem,) = config_problems({**CONFIG, **changed})
        assert problem.startswith(f"{next(iter(changed))}: expected")
    google = {name: value for name, value in CONFIG.items() if name != "model_type"}
    assert config_problems(google) == []
    assert len(config_problems({})) == 7
