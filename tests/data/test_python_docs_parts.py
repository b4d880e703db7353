"""Paragraphs, names, headings, splits and near-duplicates that the collection is made of."""

import random
from pathlib import Path

import pytest

from raypipe.data.python_docs.source import docstring_sections, topics
from raypipe.data.python_docs.split import choose_sections, split_units
from raypipe.data.python_docs.text import name_words, near_duplicates, paragraphs, words
from raypipe.data.python_docs.topics import topic_sections


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


def test_sections_of_source_files_have_public_names_and_skip_what_is_private(
    tmp_path: Path,
) -> None:
    (tmp_path / "json" / "test").mkdir(parents=True)
    (tmp_path / "json" / "__init__.py").write_text('"""About JSON."""\ndef _hidden():\n  "no"\n')
    (tmp_path / "json" / "test" / "__init__.py").write_text('"""No."""')
    (tmp_path / "json" / "_inner.py").write_text(
        "try:\n  class A:\n    'An A.'\n    def __init__(self): 'no'\n"
        "    async def go(self):\n      'Goes.'\n      def deep(): 'no'\nexcept Error: pass\n"
    )
    (tmp_path / "_pyio.py").write_text('def open(): r"Opens."')
    (tmp_path / "site.py").write_text('"""Differs by distributor."""')
    (tmp_path / "third_party.py").write_text('"""Not of the standard library."""')
    found = [(each.name, each.title, each.heading) for each in docstring_sections(tmp_path)]
    assert found == [
        ("io.open", "io", "open"),
        ("json", "json", ""),
        ("json.A", "json", "A"),
        ("json.A.go", "json", "A.go"),
    ]


def test_topics_are_read_without_importing_and_may_be_absent(tmp_path: Path) -> None:
    assert topics(tmp_path) == {}
    (tmp_path / "pydoc_data").mkdir()
    (tmp_path / "pydoc_data" / "topics.py").write_text(
        "import os; os.abort()\nother = 1\ntopics = {'a': 'B\\n*'\n'*\\n'}\n"
    )
    assert topics(tmp_path) == {"a": "B\n**\n"}


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


def test_units_go_to_the_split_that_is_filled_least() -> None:
    # shares 0.62, 0.15, 0.23; 50: 81 333 217; then 20: 113 133 87; then 10: 97 67 130
    assert split_units({"b": 20, "a": 50, "c": 10}) == {"a": "train", "b": "test", "c": "dev"}


def test_chosen_sections_are_whole_and_a_shared_passage_counts_once() -> None:
    passages = {f"m.f{number}": [f"p{number}", "shared"] for number in range(50)}
    splits = dict.fromkeys(passages, "train")
    chosen = choose_sections(passages, splits=splits, max_passages=20)  # 12 of 20 are train's
    assert len(chosen) == 11
    assert chosen < choose_sections(passages, splits=splits, max_passages=40)
