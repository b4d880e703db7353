from dataclasses import replace

from model_parts import ENCODER, MONO


def test_sides_have_their_own_limit_segment_and_prefix():
    both = replace(ENCODER, query_prefix="q: ", passage_prefix="p: ")
    assert [both.limit("query"), both.limit("passage")] == [3, 6]
    assert [both.segment("query"), both.segment("passage")] == [0, 1]
    assert [both.prefix("query"), both.prefix("passage")] == ["q: ", "p: "]
    pair = replace(MONO, query_prefix="q: ", passage_prefix="p: ")
    assert [pair.prefix("query"), pair.prefix("passage")] == ["q: ", "p: "]
    assert "start_weights_saw" not in both.to_json() and "start_weights_saw" not in pair.to_json()
    assert both.to_json()["query_prefix"] == "q: " and pair.to_json()["total_limit"] == 16
