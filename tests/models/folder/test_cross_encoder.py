import pytest
from json_files import write

from raypipe.models.folder.modules import ModelFiles
from raypipe.models.folder.sentence_transformers import num_labels_of, read_cross_encoder


@pytest.mark.parametrize(
    ("config", "units"),
    [({}, 2), ({"num_labels": 1}, 1), ({"num_labels": 0}, 0), ({"id2label": {"0": "a"}}, 1),
     ({"num_labels": 3, "id2label": {"0": "a"}}, 3), ({"id2label": {}}, 2)],
)  # fmt: skip
def test_units_of_a_head_are_stated_named_or_two(config, units):
    assert num_labels_of(config) == units


@pytest.mark.parametrize(
    ("fields", "score", "source"),
    [
        ({}, "probability", "no activation is stated: sentence-transformers' Sigmoid"),
        ({"sentence_transformers": None, "sbert_ce_default_activation_function": "x.Identity"},
         "raw", "config.json sbert_ce_default_activation_function"),
        ({"sentence_transformers": {"activation_fn": "a.Sigmoid"},
          "sbert_ce_default_activation_function": "x.Identity"},
         "probability", "config.json sentence_transformers.activation_fn"),
    ],
)  # fmt: skip
def test_the_first_activation_that_is_stated_counts(tmp_path, fields, score, source):
    write(tmp_path / "config.json", {"num_labels": 1, "max_position_embeddings": 8, **fields})
    found = read_cross_encoder(ModelFiles(tmp_path))
    assert (found.values["score"], found.sources["score"]) == (score, source)
    assert (found.values["total_limit"], found.values["relevant_label"]) == (8, None)
    assert found.problems == {} and found.by_library is None
    write(tmp_path / "config.json", {"num_labels": 1})
    assert list(read_cross_encoder(ModelFiles(tmp_path)).problems) == ["total_limit"]


@pytest.mark.parametrize(
    ("default", "prefix"), [(None, ""), ("query", "q: "), ("document", "d: "), ("other", "")]
)
def test_the_default_prompt_is_put_before_the_query_alone(tmp_path, default, prefix):
    write(tmp_path / "config.json", {"num_labels": 1, "max_position_embeddings": 8})
    body = {"prompts": {"query": "q: ", "document": "d: "}, "default_prompt_name": default}
    write(tmp_path / "config_sentence_transformers.json", body)
    found = read_cross_encoder(ModelFiles(tmp_path))
    assert (found.values["query_prefix"], found.values["passage_prefix"]) == (prefix, "")


def test_the_activation_beside_the_prompts_comes_first(tmp_path):
    own = {"activation_fn": "torch.nn.modules.activation.Sigmoid"}
    config = {"num_labels": 1, "max_position_embeddings": 8, "sentence_transformers": own}
    write(tmp_path / "config.json", config)
    body = {"activation_fn": "torch.nn.modules.linear.Identity"}
    write(tmp_path / "config_sentence_transformers.json", body)
    assert read_cross_encoder(ModelFiles(tmp_path)).values["score"] == "raw"
