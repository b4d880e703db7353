import pytest
from json_files import write

from raypipe.models.folder.cross_encoder import num_labels_of, read_cross_encoder


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
        ({}, "raw", "no activation is stated: the unit's raw value"),
        ({"sentence_transformers": None, "sbert_ce_default_activation_function": "x.Identity"},
         "raw", "config.json sbert_ce_default_activation_function"),
        ({"sentence_transformers": {"activation_fn": "a.Sigmoid"},
          "sbert_ce_default_activation_function": "x.Identity"},
         "probability", "config.json sentence_transformers.activation_fn"),
    ],
)  # fmt: skip
def test_the_first_activation_that_is_stated_counts(tmp_path, fields, score, source):
    write(tmp_path / "config.json", {"num_labels": 1, "max_position_embeddings": 8, **fields})
    found = read_cross_encoder(tmp_path)
    assert (found.values["score"], found.sources["score"]) == (score, source)
    assert (found.values["total_limit"], found.values["relevant_label"]) == (8, None)
    assert found.problems == {} and found.refusals == []
    write(tmp_path / "config.json", {"num_labels": 1})
    assert list(read_cross_encoder(tmp_path).problems) == ["total_limit"]


@pytest.mark.parametrize(("default", "left"), [(None, False), ("query", True), ("web", False)])
def test_a_default_prompt_before_pairs_is_left_to_the_library(tmp_path, default, left):
    write(tmp_path / "config.json", {"num_labels": 1, "max_position_embeddings": 8})
    prompts = {"query": "q: ", "document": "d: ", "web": ""}
    stated = {"prompts": prompts, "default_prompt_name": default}
    write(tmp_path / "config_sentence_transformers.json", stated)
    found = read_cross_encoder(tmp_path)
    assert (found.by_library is not None) is left and "query_prefix" not in found.values
