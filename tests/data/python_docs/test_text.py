import random

import pytest

from raypipe.data.python_docs.build import topic_sections
from raypipe.data.python_docs.text import name_words, near_duplicates, paragraphs, words


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("collections.OrderedDict.move_to_end", "collections ordered dict move to end"),
        ("http.server.HTTPServer", "http server http server"),
        ("Twice.twice.TWICE", "twice"),
        ("datetime.datetime.now", "datetime now"),
        ("email.utils.parseaddr", "email utils parseaddr"),
        ("base64.b85encode", "base64 b85 encode"),
        ("unittest.TestCase.assertNotIn", "unittest test case assert not in"),
        ("xml.sax.SAXException", "xml sax exception"),
        ("Mapping Types \u2014 dict", "mapping types dict"),
    ],
)
def test_names_become_words(name: str, expected: str) -> None:
    assert name_words(name) == expected


def test_short_paragraphs_join_the_next_and_the_last_joins_the_one_before() -> None:
    text = "Example:\n\n    one two  three\n    four five\n\nsix seven eight nine ten\n\nThe end."
    assert paragraphs(text) == [
        "Example: one two three four five",
        "six seven eight nine ten The end.",
    ]


def test_text_of_fewer_than_five_words_is_no_passage() -> None:
    assert paragraphs("Return the value.") == []
    assert paragraphs("") == []


def test_long_paragraphs_are_cut_at_sentences_without_losing_words() -> None:
    sentences = [" ".join(f"w{number}x{place}" for place in range(49)) + "." for number in range(9)]
    cut = paragraphs(" ".join(sentences))
    assert cut == [" ".join(sentences[start : start + 3]) for start in (0, 3, 6)]


def test_a_sentence_longer_than_the_limit_is_cut_anyway() -> None:
    cut = paragraphs(" ".join(f"w{number}" for number in range(250)))
    assert [len(words(each)) for each in cut] == [150, 100]


def test_signs_count_towards_the_limit_and_rules_are_left_out() -> None:
    cut = paragraphs("a | b\n" * 60 + "+------+=====+\n")
    assert cut == [" ".join(["a | b"] * 50), " ".join(["a | b"] * 10)]


def test_paragraphs_with_addresses_or_folders_are_left_out() -> None:
    assert paragraphs("one two three four <object at 0x7f0123456789>") == []
    assert paragraphs("one two three four five in /usr/lib/python") == []


def test_near_duplicates_are_those_of_all_pairs() -> None:
    draw = random.Random(5)
    texts = [
        " ".join(draw.choices("abcdefghij", weights=range(1, 11), k=draw.randint(1, 9)))
        for _ in range(200)
    ]
    groups = [draw.randrange(3) for _ in texts]
    for threshold in (0.3, 0.5, 0.6, 0.75, 1.0):
        expected = []
        for j, right in enumerate(texts):
            for i, left in enumerate(texts[:j]):
                both = set(left.split()) & set(right.split())
                either = set(left.split()) | set(right.split())
                if groups[i] != groups[j] and len(both) / len(either) >= threshold:
                    expected.append((i, j))
        assert expected
        assert near_duplicates(texts, groups=groups, threshold=threshold) == expected


def test_paragraphs_at_their_bounds():
    for text, expected in [
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
    ]:
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


def test_topics_are_divided_at_headings_and_definitions() -> None:
    text = (
        'The "x" thing\n*************\n\nFirst.\n\nInner part\n==========\n\nSecond.\n\n'
        "object.f(self)\nobject.g(self)\n\n   Third.\n\n   inner(call)\n\nFourth.\n"
    )
    sections = list(topic_sections({"x": text}))
    assert [(each.name, each.title, each.heading) for each in sections] == [
        ("topics.x", 'The "x" thing', ""),
        ("topics.x-inner-part", 'The "x" thing', "Inner part"),
        ("topics.x-object-f", 'The "x" thing', "object.f"),
    ]
    assert [each.text.split() for each in sections] == [
        ["First."],
        ["Second.", "Fourth."],
        ["object.f(self)", "object.g(self)", "Third.", "inner(call)"],
    ]


def test_definitions_stack_and_headings_end_them():
    text = "T\n===\n\nf(a)\n   One.\ng(b)\n   Two.\nPlain.\nInner\n---\n   3.\nh(c)\n\nk(d)\n  4.\n"
    found = {s.heading: s.text.split() for s in topic_sections({"t": text})}
    assert found == {
        "": ["Plain."], "f": ["f(a)", "One."], "g": ["g(b)", "Two."], "Inner": ["3."],
        "h": ["h(c)", "k(d)", "4."],
    }  # fmt: skip
    names = [s.name for s in topic_sections({"b": "B\n***\n\nx", "a": "A\n***\n\ny", "c": ""})]
    assert names == ["topics.a", "topics.b"]
