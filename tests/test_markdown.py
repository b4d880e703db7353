import copy

from hypothesis import given
from hypothesis import strategies as st

from raypipe.markdown import Table, Text, joined, markdown_table, read_markdown


def test_columns_are_as_wide_as_their_longest_cell():
    assert markdown_table(["a", "long"], [["bcd", "1"], ["e", ""]]) == [
        "| a   | long |",
        "|-----|------|",
        "| bcd | 1    |",
        "| e   |      |",
    ]
    assert markdown_table(["a"], []) == ["| a |", "|---|"]


def test_without_padding_a_cell_is_as_long_as_its_text():
    table = Table("", ["key", ""], [["k", "a long text"]], padded=False)
    assert Text([table]).splitlines() == ["| key |  |", "|---|---|", "| k | a long text |"]


def test_any_text_fits_into_a_cell():
    assert markdown_table(["n"], [[" a|b\n c\t"]])[2] == "| a\\|b c |"
    assert markdown_table(["n"], [["\x1b[1m"]])[2] == "| \\x1b[1m |"


def test_texts_stand_below_each_other_or_apart():
    one, other = Text(["# a", Table("", ["n"], [[1]]), ""]), Text(["- b"])
    assert joined([one, other]) == "# a\n| n |\n|---|\n| 1 |\n\n- b"
    assert joined([Text(["a"]), other, other], apart=True) == "a\n\n- b\n\n- b"
    assert one.trimmed() == "# a\n| n |\n|---|\n| 1 |" and other.trimmed() == "- b"


def test_a_copy_has_the_parts():
    text = Text(["a", Table("", ["n"], [[1]])])
    again = copy.deepcopy(text)
    assert again == text and again.parts == text.parts


words = st.text("ab |\\-#.1\n", max_size=8)
tables = st.integers(1, 4).flatmap(
    lambda wide: st.builds(
        Table,
        st.just(""),
        st.lists(words.filter(str.strip), min_size=wide, max_size=wide),
        st.lists(st.lists(words, min_size=wide, max_size=wide), max_size=3),
    )
)


@given(st.lists(tables | st.sampled_from(["", "- a note", "# title", "| no table"]), max_size=4))
def test_a_text_is_read_back_from_its_markdown_with_its_tables(parts):
    apart_parts = [each for part in parts for each in (part, "")]
    text = Text(apart_parts)
    read = read_markdown(text)
    assert read == text
    assert [p.cells() for p in read.parts if isinstance(p, Table)] == [
        p.cells() for p in parts if isinstance(p, Table)
    ]
