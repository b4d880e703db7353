"""The verb of a recipe's text, whatever the text is."""

import time

import pytest
from hostile_recipes import MERGES

from raypipe.config import load_recipe, load_training, verb_of
from raypipe.errors import InputError


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "[" * 900 + "]" * 900,
        "a: " + "{a: " * 900 + "}" * 900,
        "a: " + "9" * 5000,
        "a: 9999-99-99",
        "a: " + "1:" * 400_000 + "1.5",
        "a: &a [*a]",
        "a: [" + "1," * 5_000_000 + "1]",
        "\0",
        MERGES,
        "",
        "- loss",
    ],
    ids=lambda text: text[:12],
)
def test_a_hostile_recipe_has_a_verb_at_once_and_loading_it_tells_the_problem(text):
    began = time.process_time()
    assert verb_of(text) == "pipeline"
    with pytest.raises(InputError, match="recipe: line 1|recipe: line 2"):
        load_recipe(text)
    assert time.process_time() - began < 10


@pytest.mark.parametrize("value", ["9999-99-99", "9" * 5000, "[1, 2]"])
def test_a_hostile_training_recipe_is_still_one(value):
    assert verb_of(f"loss: {value}\n") == "train"
    with pytest.raises(InputError, match=r"recipe: line 1: loss: "):
        load_training(f"loss: {value}\n")
