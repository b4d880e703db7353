"""Prompts: their places, their pieces beside the tokenizer's own call, and their limits."""

from dataclasses import dataclass

import numpy as np
import pytest
from tiny_t5 import DUO, MONO, unigram
from tokenizers import Tokenizer, pre_tokenizers, processors

from raypipe.errors import InputError
from raypipe.text.inputs import TextSlice, cut_to, make_inputs
from raypipe.text.prompts import (
    DUO_PLACES,
    MONO_PLACES,
    first_other_prompt,
    prompt_layout,
    prompt_problems,
)

TEXTS = [
    "the lease of a shard",
    "",
    "zebras",
    "  run \t the\nrank ",
    "Relevant: {passage} Document: </s> <pad>",
    "Zürich ½ 東京 e\u0301",
    "passage " * 30,
]


@dataclass
class Limited:
    query_limit: int | None = 12
    passage_limit: int | None = None
    total_limit: int = 64


def layout(prompt=MONO["prompt"], tokenizer=None, answers=("false", "true"), limits=None):
    return prompt_layout(tokenizer or unigram(), prompt, answers, limits or Limited())


def texts_of(tokenizer, texts):
    rows = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    counts = np.array([len(row) for row in rows], np.int64)
    return TextSlice(np.concatenate(rows).astype(np.uint16), np.cumsum(counts) - counts, counts)


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


def test_the_pieces_of_a_prompt_stand_around_its_texts():
    tokenizer = unigram()
    found = layout(tokenizer=tokenizer)
    names = [[tokenizer.id_to_token(token) for token in part] for part in found.around]
    assert names == [
        ["\u2581Que", "ry", ":"],
        ["\u2581Document", ":"],
        ["\u2581", *"Relevant", ":", "</s>"],
    ]
    assert found.num_specials == 3 + 2 + 11 and found.segments == (0, 0)
    assert [tokenizer.id_to_token(token) for token in found.answers] == [
        "\u2581false",
        "\u2581true",
    ]
    assert found.filled(["a", "b"]) == "Query: a Document: b Relevant:"


@pytest.mark.parametrize("prompt", [MONO["prompt"], DUO["prompt"], "{query} {passage}"])
def test_sliced_prompts_are_the_tokenizers_own_of_the_whole_text(prompt):
    tokenizer = unigram()
    found = layout(prompt, tokenizer)
    number = len(found.segments)
    rows = [[*TEXTS[shift:], *TEXTS[:shift]] for shift in range(number)]
    made = make_inputs([texts_of(tokenizer, row) for row in rows], found)
    own = [tokenizer.encode(found.filled(each)).ids for each in zip(*rows, strict=True)]
    assert made.ids.tolist() == [token for row in own for token in row]
    assert made.lengths.tolist() == [len(row) for row in own]
    assert not made.segments.any()
    assert first_other_prompt(tokenizer, TEXTS, found) is None
    assert first_other_prompt(tokenizer, [], found) is None


def test_special_tokens_before_a_text_open_the_prompt():
    tokenizer = unigram()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<pad> $A </s> </s>", pair="$A $B", special_tokens=[("<pad>", 0), ("</s>", 1)]
    )
    found = layout(tokenizer=tokenizer)
    assert found.before[:2] == (0, tokenizer.token_to_id("\u2581Que"))
    assert found.behind[-1][-2:] == (1, 1)
    assert first_other_prompt(tokenizer, TEXTS, found) is None


def test_the_first_text_whose_prompt_has_other_pieces_is_named():
    tokenizer = unigram()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()  # each of several spaces is a piece
    found = layout(tokenizer=tokenizer)
    assert first_other_prompt(tokenizer, ["zebra", "lease", "shard"], found) is None
    assert first_other_prompt(tokenizer, ["zebra", "lease", "  shard"], found) == "lease"
    both = layout(DUO["prompt"], tokenizer)
    assert first_other_prompt(tokenizer, ["zebra", "lease", "a", "  shard"], both) == "lease"


@pytest.mark.parametrize(
    ("word", "tokens"),
    [("Zebra", "\u2581 Z e b r a"), ("zebras", "\u2581zebra s"), ("東", "\u2581 <unk>"), ("", "")],
)
def test_an_answer_of_other_pieces_is_refused_with_them(word, tokens):
    with pytest.raises(InputError) as caught:
        layout(answers=("false", word))
    (problem,) = caught.value.problems
    assert problem.startswith("answers: expected words that are one piece of the tokenizer each,")
    assert f"found {word!r} as {tokens}; name the words" in problem


def test_a_tokenizer_that_ends_no_input_is_refused_with_every_other_problem():
    tokenizer = unigram()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A", pair="$A $B", special_tokens=[]
    )
    with pytest.raises(InputError) as caught:
        layout(tokenizer=tokenizer, answers=("maybe", "true"), limits=Limited(12, 24, 50))
    closing, answer, limit = caught.value.problems
    assert "expected one that ends an input with a special token" in closing
    assert "'maybe' as" in answer
    assert limit == (
        "total_limit: 50 tokens do not hold the prompt's own 15 and the other limits, which need 51"
    )


@pytest.mark.parametrize(
    ("limits", "least"),
    [
        (Limited(12, None), 16 + 12 + 1),
        (Limited(12, 20), 16 + 12 + 20),
        (Limited(None, None), 16 + 1 + 1),
    ],
)
def test_limits_leave_room_for_a_piece_of_each_passage(limits, least):
    limits.total_limit = least
    assert layout(limits=limits).num_specials == 16
    limits.total_limit = least - 1
    with pytest.raises(InputError, match=f"which need {least}"):
        layout(limits=limits)


def test_two_passages_need_room_for_both():
    assert layout(DUO["prompt"], limits=Limited(12, 3, 18 + 12 + 6)).num_specials == 18
    with pytest.raises(InputError, match="which need 36"):
        layout(DUO["prompt"], limits=Limited(12, 3, 35))


def test_the_passage_is_cut_and_never_the_end_of_the_prompt():
    tokenizer = unigram()
    found = layout(tokenizer=tokenizer, limits=Limited(total_limit=40))
    query, passage = (texts_of(tokenizer, [text]) for text in ("the lease", "passage " * 30))
    texts = cut_to(Limited(total_limit=40), query, [passage], num_specials=found.num_specials)
    made = make_inputs(texts, found)
    own = tokenizer.encode(f"Query: the lease Document: {'passage ' * 22}Relevant:").ids
    assert made.ids.tolist() == own and len(own) == 40


def test_a_tokenizer_read_from_its_file_makes_the_same_layout(tmp_path):
    unigram().save(str(tmp_path / "tokenizer.json"))
    assert layout(tokenizer=Tokenizer.from_file(str(tmp_path / "tokenizer.json"))) == layout()
