import pytest
from rich.cells import cell_len

from raypipe.report.show import Candidate, PlaceInList, aligned, folded, values

TEXT = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
CANDIDATES = [
    Candidate(
        "p1", 1, "a lease", ["lease"],
        {"bm25": PlaceInList(1, 12.3456789, "bm25"), "mono": PlaceInList(12, -0.5, "bm25")},
    ),
    Candidate("p2", None, f"{TEXT} {TEXT}", [], {"mono": PlaceInList(1000, 2.0, "mono")}),
]  # fmt: skip


def test_ranks_stand_in_columns_above_scores_and_beside_texts_cut_after_two_lines():
    assert aligned(CANDIDATES, ["bm25", "mono"], width=70).splitlines() == [
        " bm25    mono",
        "    1      12  grade 1  p1",
        "12.35  (-0.5)  a lease",
        "               shared: lease",
        "",
        "    -   1,000  not judged  p2",
        "            2  one two three four five six seven eight nine ten eleven",
        "               twelve thirteen fourteen fifteen one two three four ...",
        "               no shared word",
    ]


@pytest.mark.parametrize("width", [40, 70, 100])
@pytest.mark.parametrize("num", [1, 12])
def test_no_line_is_wider_than_asked_whatever_the_texts_and_the_number_of_systems(width, num):
    names = [f"system-{number}" for number in range(num)]
    places = {name: PlaceInList(17, -123.456, "other") for name in names}
    wide = "日本語" * 100
    candidates = [
        Candidate("an-id-" + "x" * 200, 3, "y" * 500, ["z" * 150], places),
        Candidate("\x1b[2J", None, f"{wide}\x1b]0;title\x07", [], {}),
    ]
    text = aligned(candidates, names, width=width)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    assert "\x1b" not in text and "\x07" not in text
    assert all(name in text for name in names)
    assert text.count("17") >= num and text.count("(-123.5)") == num


def test_many_systems_stand_above_the_text():
    names = [f"system-{number}" for number in range(12)]
    candidate = Candidate("p1", 0, "a lease", [], {names[3]: PlaceInList(2, 1.5, names[3])})
    lines = aligned([candidate], names, width=60).splitlines()
    told = " ".join(lines)
    assert "system-2 -" in told and "system-3 2 1.5" in told and "grade 0  p1" in told


def test_numbers_are_as_the_page_has_them_and_markup_is_text():
    text = values(["system", "p", "n"], [["[red]a[/]", 1e-9, 1234], ["b", None, 5]], width=60)
    assert "[red]a[/]" in text and "<0.0001" in text and "1,234" in text
    assert text.splitlines()[-1].split() == ["b", "-", "5"]
    assert "[bold]" in aligned([Candidate("p", 1, "[bold]x", [], {})], ["one"])


def test_a_word_longer_than_a_line_is_broken():
    assert folded("ab abcdefgh", 4) == ["ab", "abcd", "efgh"]
