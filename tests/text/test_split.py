"""Documents as passages: which units each has, and what is in front."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raypipe.text.split import Splitting, num_passages, passages_of

PAPER = Splitting(by="words", length=100, stride=50, title_words=16, headings_words=32)


ONE = Splitting(by="sentences", length=1, stride=1)


def sentences(text):
    """Passages of one sentence each."""
    return passages_of("", "", text, ONE)


def words(first, stop, kind="w"):
    return [f"{kind}{n}" for n in range(first, stop)]


@pytest.mark.parametrize(
    ("num_words", "starts"),
    [
        (1, [0]),
        (100, [0]),
        (101, [0, 50]),
        (150, [0, 50]),
        (151, [0, 50, 100]),
        (200, [0, 50, 100]),
    ],
)
def test_windows_of_100_words_begin_every_50_until_one_reaches_the_end(num_words, starts):
    body = " ".join(words(0, num_words))
    plain = Splitting(by="words", length=100, stride=50)
    expected = [" ".join(words(start, min(start + 100, num_words))) for start in starts]
    assert passages_of("t", "h", body, plain) == expected
    assert num_passages(body, plain) == len(starts)


def test_16_words_of_the_title_and_32_of_the_headings_are_in_front_of_each_window():
    title, headings = words(0, 17, "t"), words(0, 33, "h")
    body = words(0, 120)
    first, second = passages_of(" ".join(title), "\n".join(headings), " ".join(body), PAPER)
    front = [*title[:16], *headings[:32]]
    assert first == " ".join([*front, *body[:100]])
    assert second == " ".join([*front, *body[50:]])


def test_a_body_without_words_gives_one_passage_of_its_title_and_nothing_an_empty_one():
    assert passages_of("a  title", "", " \n", PAPER) == ["a title"]
    assert passages_of("", "", "", PAPER) == [""]
    assert num_passages(" \n", PAPER) == 1


def test_at_most_keeps_the_first_windows():
    body, few = " ".join(words(0, 300)), Splitting(by="words", length=100, stride=50, at_most=2)
    assert num_passages(body, few) == 2
    assert [p.split()[0] for p in passages_of("", "", body, few)] == ["w0", "w50"]
    assert num_passages("one two", few) == 1


def test_every_word_is_in_a_window_and_no_window_is_within_the_one_before():
    for length in range(1, 6):
        for stride in range(1, length + 1):
            for num in range(1, 15):
                splitting = Splitting(by="words", length=length, stride=stride)
                found = [p.split() for p in passages_of("", "", " ".join(words(0, num)), splitting)]
                assert {w for p in found for w in p} == set(words(0, num))
                for before, after in zip(found, found[1:], strict=False):
                    assert not set(after) <= set(before)


def test_sentences_end_with_a_line_or_before_a_capital_a_digit_or_a_quote():
    text = 'One e.g. this. Two (yes!) Three?\n\nFour "five." 6 is it. "Seven." and eight'
    assert sentences(text) == [
        "One e.g. this.",
        "Two (yes!)",
        "Three?",
        'Four "five."',
        "6 is it.",
        '"Seven." and eight',
    ]
    assert sentences(" \r\n ") == [""], "one passage of title and headings alone"


def test_windows_of_sentences_overlap_and_keep_the_title_in_front():
    body = "A a. B b. C c. D d. E e."
    splitting = Splitting(by="sentences", length=3, stride=2, title_words=1)
    assert passages_of("Title x", "", body, splitting) == [
        "Title A a. B b. C c.",
        "Title C c. D d. E e.",
    ]
    assert num_passages(body, splitting) == 2


def test_the_whole_document_is_one_passage_of_what_it_has():
    whole = Splitting(by="whole")
    assert passages_of("T", " ", "a\n b", whole) == ["T a\n b"]
    assert num_passages("a\n b", whole) == 1


def test_a_long_run_of_blanks_or_dots_is_split_in_moments():
    assert sentences("a." + " " * 100_000 + "b")[0].startswith("a.")
    assert len(sentences("." * 100_000)) == 1


ZH = "北京的秋天很美丽，公园里有许多树。"
TH = "ภาษาไทยเขียนติดกันไม่มีเว้นวรรค"
PLAIN = Splitting(by="words", length=5, stride=3)
UNSPACED = [ZH, "すもももモモも、ｱｲｳ！", TH, "ພາສາລາວ", "မြန်မာစာ။", "ភាសាខ្មែរ។", "བོད་སྐད།", "𠀀𠀁"]


@pytest.mark.parametrize("text", UNSPACED)
def test_each_character_of_text_without_blanks_counts_as_a_word(text):
    body = text * 40
    expected = [body[start : start + 100] for start in range(0, len(body) - 50, 50)]
    windows = passages_of("", "", body, Splitting(by="words", length=100, stride=50))
    assert windows == expected and num_passages(body, PAPER) == len(expected)


def test_the_title_and_headings_are_cut_by_characters_too():
    first, *_ = passages_of(ZH * 2, "見出し " * 20, ZH, PAPER)
    assert first == f"{(ZH * 2)[:16]} {'見出し ' * 10}見出 {ZH}"


def test_words_among_characters_stay_whole_and_blanks_stay_where_they_are():
    assert passages_of("", "", "买iPhone15 手机，very  good 3.5寸", PLAIN) == [
        "买iPhone15 手机，",
        "机，very good 3.5",
        "good 3.5寸",
    ]
    assert passages_of("", "", "あ\u3000い\nう", PLAIN) == ["あ い う"]


@pytest.mark.parametrize(
    "text", ["이것은 한국어 문장이다", "हिन्दी में लिखा", "“quoted” — ❤️ 👩‍👧 naïve", "㈜한국"]
)
def test_text_with_blanks_is_split_at_these_alone(text):
    body = f"{text} " * 9
    expected = [" ".join(body.split()[start : start + 5]) for start in (*range(0, 99, 3),)]
    windows = passages_of("", "", body, PLAIN)
    assert windows == expected[: len(windows)] and windows[-1].endswith(text.split()[-1])


def test_sentences_without_blanks_end_at_their_own_marks():
    text = "他说：“好！”然后走了。真的？！是。 Yes it is. Ok 3.14\nほか。」つぎ။"
    expected = [
        "他说：“好！”",
        "然后走了。",
        "真的？！",
        "是。",
        "Yes it is.",
        "Ok 3.14",
        "ほか。」",
        "つぎ။",
    ]
    assert sentences(text) == expected
    two = Splitting(by="sentences", length=2, stride=1)
    assert passages_of("", "", text, two)[1:4] == [
        "然后走了。真的？！",
        "真的？！是。",
        "是。 Yes it is.",
    ]


def test_a_sentence_without_blanks_is_cut_after_100_characters_and_a_sentence_of_words_is_not():
    body = TH.replace(" ", "") * 10
    assert sentences(body) == [body[start : start + 100] for start in range(0, len(body), 100)]
    assert passages_of("", "", body, Splitting(by="sentences", length=10, stride=5)) == [body]
    long = " ".join(words(0, 300))
    assert sentences(long) == [long]


@given(
    st.text(st.sampled_from('ab 北京。！？ไทก។\u3000\n.,!"” 한'), max_size=400),
    st.sampled_from(["words", "sentences"]),
)
def test_windows_side_by_side_hold_the_text(body, by):
    side_by_side = Splitting(by=by, length=2, stride=2)
    joined = "".join(passages_of("", "", body, side_by_side))
    assert "".join(joined.split()) == "".join(body.split())
    assert num_passages(body, side_by_side) == len(passages_of("", "", body, side_by_side))
