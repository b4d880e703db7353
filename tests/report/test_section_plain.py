from raypipe.report.section import UNSHOWN, cut, plain


def test_a_text_is_one_line_without_what_moves_a_cursor_or_turns_the_text():
    assert plain(" a\tb\r\nc\u2028d\u00a0e ") == "a b c d e"
    assert plain("\x1b[31mred\x07\x7f\x9b") == f"{UNSHOWN}[31mred{UNSHOWN * 3}"
    assert plain("a\u202eb\u2066c\u2069") == f"a{UNSHOWN}b{UNSHOWN}c{UNSHOWN}"


def test_other_letters_and_marks_stay():
    assert plain("<b>ζ日本\u200d👩\u0301</b>") == "<b>ζ日本\u200d👩\u0301</b>"


def test_a_longer_text_ends_with_dots():
    assert (cut("abcdef", 6), cut("abc def", 4)) == ("abcdef", "abc ...")
