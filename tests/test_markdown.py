from raypipe.markdown import cell, markdown_table


def test_columns_are_as_wide_as_their_longest_cell():
    assert markdown_table(["a", "long"], [["bcd", "1"], ["e", ""]]) == [
        "| a   | long |",
        "|-----|------|",
        "| bcd | 1    |",
        "| e   |      |",
    ]
    assert markdown_table(["a"], []) == ["| a |", "|---|"]


def test_any_text_fits_into_a_cell():
    assert cell(" a|b\n c\t") == "a\\|b c"
