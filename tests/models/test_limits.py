"""Settings beside what a model has: positions, segment rows, a third row."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from model_parts import CONFIG, DUO, ENCODER, MONO

from raypipe.models.limits import limit_problems, longest_input


@pytest.mark.parametrize(
    ("rows", "choice", "good"),
    [(2, "zero", True), (2, "copy", True), (2, None, False), (3, None, True), (3, "copy", False),
     (4, None, True), (1, None, False), (1, "zero", False)],
)  # fmt: skip
def test_a_third_segment_row_is_added_to_two_and_to_no_other_number(rows, choice, good):
    duo = replace(DUO, segment_row=choice)
    assert (limit_problems(duo, CONFIG, rows) == []) is good


@pytest.mark.parametrize(
    ("conventions", "rows", "told"),
    [
        (replace(ENCODER, passage_limit=14), 2, []),
        (replace(ENCODER, passage_limit=15), 2, ["17 tokens, the model has 16"]),
        (replace(ENCODER, query_limit=15), 2, ["17 tokens, the model has 16"]),
        (ENCODER, 1, ["segment 1, the model has 1"]),
        (replace(ENCODER, passage_segment=0, query_segment=1), 1, ["segment 1"]),
        (replace(ENCODER, passage_segment=0), 1, []),
        (ENCODER, 0, []),
        (MONO, 2, []),
        (MONO, 1, ["segment 1"]),
        (replace(MONO, total_limit=17), 2, ["17 tokens"]),
    ],
)
def test_limits_and_segments_beyond_the_model_are_told(conventions, rows, told):
    found = limit_problems(conventions, CONFIG, rows)
    assert len(found) == len(told) and all(a in b for a, b in zip(told, found, strict=True))


def test_an_encoders_special_tokens_are_those_of_its_tokenizer():
    """A decoder has one; without a tokenizer two are counted."""
    longer = replace(ENCODER, passage_limit=15)
    layouts = {side: SimpleNamespace(num_specials=1) for side in ("query", "passage")}
    assert (longest_input(longer, layouts), longest_input(longer)) == (16, 17)
    assert limit_problems(longer, CONFIG, 2, layouts) == []
