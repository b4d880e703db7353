"""Sliced inputs against the tokenizer's own."""

import pytest
from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers.models import WordLevel

from raypipe.text.inputs import Layout
from raypipe.text.prompts import first_difference as compared

TEXTS = ["a b", "", "c", "b a c"]
SINGLE, PAIR = Layout(0, (1,), 1, (0,)), Layout(0, (1,), 1, (0, 1))


def first_difference(tokenizer, texts, pairs=False):
    return compared(tokenizer, texts, SINGLE, PAIR if pairs else None)


def tokenizer(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1"):
    made = Tokenizer(WordLevel({"[CLS]": 0, "[SEP]": 1, "a": 2, "b": 3, "c": 4}, unk_token="c"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.normalizer = normalizers.Lowercase()
    special = [("[CLS]", 0), ("[SEP]", 1)]
    made.post_processor = processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=special
    )
    return made


def test_berts_own_inputs_are_sliced():
    assert first_difference(tokenizer(), TEXTS, pairs=True) is None


@pytest.mark.parametrize(
    ("templates", "pairs", "expected"),
    [
        ({"single": "[CLS] $A"}, False, "a b"),
        ({"pair": "[CLS] $A [SEP] [SEP] $B:1 [SEP]:1"}, True, "a b"),
        ({"pair": "[CLS] $A [SEP] $B:0 [SEP]:0"}, True, "a b"),
        ({"pair": "[CLS] $A [SEP] $B:0 [SEP]:0"}, False, None),
    ],
)
def test_other_inputs_and_segments_are_found(templates, pairs, expected):
    assert first_difference(tokenizer(**templates), TEXTS, pairs=pairs) == expected


def bert(**templates):
    tokenizer = Tokenizer(WordLevel({"[CLS]": 0, "[SEP]": 1, "a": 2, "b": 3}, unk_token="b"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    if templates:
        special = [("[CLS]", 0), ("[SEP]", 1)]
        tokenizer.post_processor = processors.TemplateProcessing(
            **templates, special_tokens=special
        )
    return tokenizer


def test_a_tokenizer_without_inputs_of_its_own_has_nothing_to_compare():
    assert first_difference(bert(), ["a", "b"], pairs=True) is None
    assert first_difference(bert(single="$A"), []) is None
    assert first_difference(bert(single="$A"), ["a"]) == "a"


def test_pairs_are_compared_with_the_next_text_and_the_last_with_the_first():
    """This one leaves out the second [SEP] of pairs; singles are as they should be."""
    other = bert(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1")
    assert first_difference(other, ["a b", "a"], pairs=True) == "a b"
    assert first_difference(other, ["a b", "a"], pairs=False) is None
    assert first_difference(other, ["a b", "a"]) is None
    same = bert(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1")
    assert first_difference(same, ["a b", "a", "", "b b b"], pairs=True) is None
