import json

import pytest

from raypipe.models.folder.cross_encoder import read_cross_encoder


def write(path, body):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(body))


@pytest.mark.parametrize(
    ("fields", "score", "source"),
    [
        ({}, "raw", "no activation is stated: the unit as it is"),
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
