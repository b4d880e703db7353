"""The rules of a collection of documents, each broken alone, and its defaults."""

import pytest

from raypipe.config import load_recipe
from raypipe.config.parts import Split
from raypipe.config.rules import resolved_split as resolved

FIELDS = "fields: {id: a, body: b, document: c}"


def recipe(collection):
    return f"format: 1\nname: documents\ncollection: {{input: docs, {collection}}}\n"


@pytest.mark.parametrize(
    ("collection", "expected"),
    [
        ("format: msmarco-doc-v1, split: {}", ("words", 100, 50, 16, 32, None)),
        (
            "format: msmarco-doc-v2, split: {at_most: 32, title_words: 0}",
            ("words", 100, 50, 0, 32, 32),
        ),
        ("format: msmarco-doc-v2, split: {by: sentences}", ("sentences", 10, 5, 16, 32, None)),
        (
            "format: msmarco-doc-v2, split: {by: whole}",
            ("whole", None, None, None, None, None),
        ),
        ("format: msmarco-v2, split: {by: given}", ("given", None, None, None, None, None)),
        (
            f"format: jsonl, {FIELDS}, split: {{length: 7, stride: 7}}",
            ("words", 7, 7, 16, 32, None),
        ),
    ],
)
def test_the_defaults_are_those_of_the_units(collection, expected, tmp_path):
    split = load_recipe(recipe(collection), base=tmp_path).collection.split
    names = ("by", "length", "stride", "title_words", "headings_words", "at_most")
    assert tuple(getattr(split, name) for name in names) == expected
    assert resolved(split) == split


def test_zero_words_in_front_are_kept_as_zero():
    assert resolved(Split(title_words=0)).title_words == 0


@pytest.mark.parametrize(
    ("collection", "expected"),
    [
        (
            "format: msmarco-doc-v2",
            "collection.split: missing; these are documents, and stages work over passages: write "
            "split: {}",
        ),
        (
            "format: msmarco-v1, split: {}",
            "collection.split: by: words is for the formats msmarco-doc-v1, msmarco-doc-v2, jsonl, "
            "not msmarco-v1",
        ),
        (
            "format: msmarco-doc-v2, split: {by: given}",
            "collection.split: by: given is for the formats msmarco-v2, jsonl, not msmarco-doc-v2",
        ),
        (
            "format: jsonl, split: {}",
            "collection.fields: missing; expected the names of the fields, at least id and body",
        ),
        (
            f"format: msmarco-doc-v2, {FIELDS}, split: {{}}",
            "collection.fields: for format jsonl only, not msmarco-doc-v2; remove it",
        ),
        (
            "format: jsonl, fields: {id: a, body: b}, split: {by: given}",
            "collection.fields.document: missing; by: given needs the field with the id of a "
            "passage's document",
        ),
        (
            "format: jsonl, fields: {id: a, body: b, document: c, title: d}, split: {by: given}",
            "collection.fields.title: not read with by: given; remove it",
        ),
        (
            "format: jsonl, fields: {id: a, body: b, spans: d}, split: {}",
            "collection.fields.spans: not read with by: words; remove it",
        ),
        (
            "format: msmarco-doc-v2, split: {length: 40, stride: 41}",
            "collection.split.stride: found 41, more than the length 40: words would be left out; "
            "expected at most 40",
        ),
        (
            "format: msmarco-doc-v2, split: {length: 40}",
            "collection.split.stride: the default is 50, more than the length 40: words "
            "would be left out; expected at most 40",
        ),
        (
            "format: msmarco-doc-v1, split: {by: given, delimiter: x}",
            "collection.split.delimiter: for passages; msmarco-doc-v1 holds documents: remove it, "
            "and by: given",
        ),
        (
            "format: csv, split: {by: words, delimiter: x}",
            "collection.split.delimiter: for by: given only, not words; remove it",
        ),
        (
            "format: msmarco-v2, split: {by: given, delimiter: x}",
            "collection.split.delimiter: the passages of msmarco-v2 name their documents; remove "
            "it",
        ),
        (
            f"format: jsonl, {FIELDS}, split: {{by: given, delimiter: x}}",
            "collection.split.delimiter: fields.document names the document too; remove one of "
            "them",
        ),
        (
            "format: msmarco-doc-v2, split: {by: whole, at_most: 3}",
            "collection.split.at_most: for words and sentences, not whole; remove it",
        ),
    ],
)
def test_a_broken_rule_is_the_only_problem(problems, collection, expected):
    (problem,) = problems(recipe(collection), source="a.yaml")
    assert problem.split(": ", 2)[2] == expected
