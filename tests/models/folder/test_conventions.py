from dataclasses import replace

import pytest
from model_parts import ENCODER, MONO

from raypipe.errors import InputError
from raypipe.models.folder.settings import conventions_from


def test_sides_have_their_own_limit_segment_and_prefix():
    both = replace(ENCODER, query_prefix="q: ", passage_prefix="p: ")
    assert [both.limit("query"), both.limit("passage")] == [3, 6]
    assert [both.segment("query"), both.segment("passage")] == [0, 1]
    assert [both.prefix("query"), both.prefix("passage")] == ["q: ", "p: "]
    pair = replace(MONO, query_prefix="q: ", passage_prefix="p: ")
    assert [pair.prefix("query"), pair.prefix("passage")] == ["q: ", "p: "]
    assert "start_weights_saw" not in both.to_json() and "start_weights_saw" not in pair.to_json()
    assert both.to_json()["query_prefix"] == "q: " and pair.to_json()["total_limit"] == 16


def test_names_of_folders_are_in_no_fingerprint_and_a_cut_is():
    cut = replace(ENCODER, truncate_dim=7, query_table="query")
    assert hash(cut) == hash(replace(cut))
    assert "query_table" not in cut.to_json()
    assert cut.to_json() == ENCODER.to_json() | {"truncate_dim": 7}


def test_an_input_of_pre_training_has_room_for_two_texts_and_their_special_tokens():
    body = {"kind": "pretrained", "total_limit": 8}
    assert conventions_from(body, "raypipe.json").total_limit == 8
    with pytest.raises(InputError, match="total_limit: expected 8 tokens or more, found 7"):
        conventions_from(body | {"total_limit": 7}, "raypipe.json")
