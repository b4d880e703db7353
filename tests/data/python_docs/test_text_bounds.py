import pytest

from raypipe.data.python_docs.text import near_duplicates, paragraphs


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b c d", []),
        ("a b c d e", ["a b c d e"]),
        ("a b c d\n\ne", ["a b c d e"]),
        ("a b c d e\n\nf g h i", ["a b c d e f g h i"]),
        ("a b c d e\n\nf g h i j", ["a b c d e", "f g h i j"]),
        ("a b c\n\nd\n \t\nf g h i j k", ["a b c d f g h i j k"]),
        ("a b c d e ---- f", ["a b c d e f"]),
        ("a b c d e --- f", ["a b c d e --- f"]),
        ("a b c d 0x123456", ["a b c d 0x123456"]),
        ("a b c d 0x1234567", []),
        ("a b c d e /opt/x", []),
        ("a b c d e /etc/x", ["a b c d e /etc/x"]),
        ("a b c d see.org/usr/x", ["a b c d see.org/usr/x"]),
    ],
)
def test_paragraphs_at_their_bounds(text, expected):
    assert paragraphs(text) == expected


@pytest.mark.parametrize(("last", "sizes"), [(50, [150]), (51, [100, 51])])
def test_sentences_fill_150_words_and_signs_exactly(last, sizes):
    parts = [" ".join(["w"] * (number - 1)) + "." for number in (50, 50, last)]
    cut = paragraphs(" ".join(parts))
    assert [len(each.replace(".", " .").split()) for each in cut] == sizes


def test_near_duplicates_of_one_group_and_below_the_threshold_are_none():
    texts = ["a b c", "a b c d", "a b c", "x"]
    assert near_duplicates(texts, groups=[0, 1, 0, 1], threshold=0.75) == [(0, 1), (1, 2)]
    assert near_duplicates(texts, groups=[0, 1, 0, 1], threshold=0.76) == []
    assert near_duplicates(texts, groups=[0, 0, 0, 0], threshold=0.5) == []
