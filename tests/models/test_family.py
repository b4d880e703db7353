"""The families of models: their one list, and what BERT's gives."""

import inspect

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from raypipe.errors import InputError
from raypipe.models.bert.family import FAMILY
from raypipe.models.family import FAMILIES, family_of
from raypipe.text.inputs import Layout


def tokenizer(*tokens):
    return Tokenizer(WordLevel({token: number for number, token in enumerate(tokens)}))


@pytest.mark.parametrize("name", ["read", "head", "layout"])
def test_every_familys_functions_are_called_as_berts(name):
    asked = inspect.signature(getattr(FAMILY, name)).parameters
    for family in FAMILIES.values():
        own = inspect.signature(getattr(family, name)).parameters
        assert list(own) == list(asked)
        assert all(own[each].kind == asked[each].kind for each in own)


def test_a_config_names_its_family_and_googles_own_is_a_bert():
    assert family_of({"model_type": "bert"}) is FAMILY is FAMILIES["bert"]
    assert family_of({"hidden_size": 4}) is FAMILY


@pytest.mark.parametrize("kind", ["bart", "Bert", None, ["bert"], 1])
def test_another_architecture_is_refused_with_what_was_expected_and_found(kind):
    with pytest.raises(InputError) as caught:
        family_of({"model_type": kind})
    (problem,) = caught.value.problems
    begin, _, end = problem.partition(", which ")
    assert begin == "model_type: expected " + " or ".join(", ".join(FAMILIES).rsplit(", ", 1))
    assert end == f"raypipe can compute, found {kind!r}; name a model of that architecture"


def test_berts_inputs_begin_with_cls_and_each_text_ends_with_sep():
    given = tokenizer("a", "[SEP]", "b", "[CLS]")
    assert FAMILY.layout(given, (0, 1, 2)) == Layout(3, (1,), 1, (0, 1, 2), first_position=0)
    assert FAMILY.layout(given, [1]) == Layout(3, (1,), 1, (1,))


@pytest.mark.parametrize("lost", ["[CLS]", "[SEP]"])
def test_a_tokenizer_without_berts_specials_makes_no_layout(lost):
    given = tokenizer(*({"[CLS]", "[SEP]", "a"} - {lost}))
    with pytest.raises(InputError, match=r"^the tokenizer has no \[CLS\] or no \[SEP\]$"):
        FAMILY.layout(given, (0,))


def test_names_in_a_training_are_those_of_a_reranker_and_go_back_to_an_encoders():
    names = ("embeddings.x", "encoder.layer.0.y", "pooler.dense.bias", "classifier.weight")
    trained = FAMILY.files.trained_names((*names, "embeddings.position_ids"), head=True)
    assert list(trained) == list(names)
    assert list(trained.values()) == [*(f"bert.{name}" for name in names[:3]), names[3]]
    assert list(FAMILY.files.trained_names(trained.values(), head=False)) == [
        "bert.embeddings.x",
        "bert.encoder.layer.0.y",
    ]
    saved = [FAMILY.files.saved_name(name, head=False) for name in trained.values()]
    assert saved == list(names)
    assert [FAMILY.files.saved_name(n, head=True) for n in saved] == list(trained.values())
