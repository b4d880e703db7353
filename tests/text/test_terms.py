"""Terms that stand for those of Lucene's English analyzer in a forecast."""

import pytest

from raypipe.text.terms import stem, terms


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("caresses", "caress"),
        ("ponies", "poni"),
        ("cats", "cat"),
        ("hopping", "hop"),
        ("falling", "fall"),
        ("sing", "sing"),
        ("happy", "happi"),
        ("relational", "relat"),
        ("running", "run"),
        ("dog's", "dog"),
        ("is", "is"),
        ("x86", "x86"),
    ],
)
def test_a_stem_is_porters_for_frequent_endings(word, expected):
    assert stem(word) == expected


def test_stop_words_go_and_punctuation_inside_a_word_stays():
    assert terms("The os.path of read_text, and a Zebra's 3.14!") == [
        "os.path",
        "read_text",
        "zebra",
        "3.14",
    ]


def test_words_of_other_languages_are_only_lowered():
    assert terms("The Katzen und", english=False) == ["the", "katzen", "und"]
