from tokenizers import Tokenizer, pre_tokenizers, processors
from tokenizers.models import WordLevel

from raypipe.text.slicing import first_difference


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
