"""Prompts: their places."""

import pytest
from tiny_t5 import DUO, MONO

from raypipe.text.prompts import DUO_PLACES, MONO_PLACES, prompt_problems


@pytest.mark.parametrize(
    ("prompt", "places"),
    [
        (MONO["prompt"], MONO_PLACES),
        (DUO["prompt"], DUO_PLACES),
        ("{query} {passage}", MONO_PLACES),
        ("Is {query} answered by {passage} ?", MONO_PLACES),
    ],
)
def test_a_prompt_has_each_place_once_in_order_between_spaces(prompt, places):
    assert prompt_problems(prompt, places) == []


@pytest.mark.parametrize(
    "prompt",
    [
        "",
        "Query: {query}",
        "{passage} {query}",
        "{query} {passage} {query}",
        "{query} {passage_0} {passage_1}",
        "{query} {passage} {",
        "} {query} {passage}",
        "{query} {passage} {text}",
    ],
)
def test_a_prompt_of_other_places_is_told_with_those_expected(prompt):
    (problem,) = prompt_problems(prompt, MONO_PLACES)
    assert problem == (
        "prompt: expected a text with {query}, {passage}, each once, in this order, found "
        f"{prompt!r}"
    )


@pytest.mark.parametrize(
    "prompt",
    [
        "Query:{query} Document: {passage} Relevant:",
        "Query: {query}Document: {passage} Relevant:",
        "Query: {query} Document:{passage} Relevant:",
        "Query: {query} Document: {passage}Relevant:",
        "{query}{passage}",
        "{query}\t{passage}",
    ],
)
def test_words_that_touch_a_place_are_refused(prompt):
    (problem,) = prompt_problems(prompt, MONO_PLACES)
    assert problem.startswith("prompt: expected a space between each place and the words beside")
    assert problem.endswith(repr(prompt))
