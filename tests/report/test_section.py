import json

from raypipe.markdown import Table, plain, shown
from raypipe.report.charts import Chart
from raypipe.report.page import ReportSection, to_text

UNSHOWN = "\ufffd"

TABLE = Table("Values", ["name", "n", "mean"], [["a|b\nc", 1234, 0.25], ["d", 5, None]])
SECTION = ReportSection(
    "depth", "dev", [TABLE], [Chart("C", "x", "y", {"a": [(1, 2.0)]})], ["two topics"]
)


def test_cells_are_four_digits_thousands_apart_and_one_line():
    assert [shown(v) for v in (0.5, -0.00004, 1234567, None)] == [
        "0.5000",
        "-0.0000",
        "1,234,567",
        "-",
    ]
    assert shown("a|b\n c") == "a|b c"


def test_times_and_inferences_have_one_digit_after_the_point():
    columns = ("ms/query", "ms/query, derived", "inferences/query", "seconds", "spread")
    assert [shown(1234.5678, column) for column in columns] == [*["1,234.6"] * 4, "1234.5678"]
    assert shown(12, "inferences, needed") == "12" and shown(None, "seconds") == "-"


def test_a_difference_has_a_sign():
    assert [shown(0.5, column) for column in ("difference", "low", "high", "mean")] == [
        "+0.5000", "+0.5000", "+0.5000", "0.5000",
    ]  # fmt: skip


def test_a_p_is_never_0_and_other_small_values_are_what_they_are():
    assert [shown(0.00005, column) for column in ("p", "p (Holm)", "mean", "precision")] == [
        "<0.0001", "<0.0001", "0.0001", "0.0001",
    ]  # fmt: skip
    assert (shown(0.0001, "p"), shown(None, "p"), shown("x", "p")) == ("0.0001", "-", "x")


def test_what_to_know_first_comes_first():
    section = ReportSection("overview", "dev", [Table("T", ["p"], [[1e-5]])], lead="best: a")
    assert to_text(section).splitlines()[2:4] == ["best: a", ""]
    assert "| <0.0001 |" in to_text(section)


def test_a_table_without_rows_is_one_line():
    section = ReportSection("queries", "dev", [Table("Worse", ["query"], []), TABLE])
    assert to_text(section).splitlines()[2:6] == ["Worse: none", "", "Values", ""]


def test_a_section_is_markdown_tables_then_notes():
    assert to_text(SECTION).splitlines() == [
        "## depth: dev",
        "",
        "Values",
        "",
        "| name   | n     | mean   |",
        "|--------|-------|--------|",
        "| a\\|b c | 1,234 | 0.2500 |",
        "| d      | 5     | -      |",
        "",
        "- two topics",
    ]


def test_json_has_every_value_as_it_is():
    found = json.loads(json.dumps(SECTION.to_json()))
    assert list(found["tables"][0]) == ["title", "columns", "rows"]
    assert found["tables"][0]["rows"] == [["a|b\nc", 1234, 0.25], ["d", 5, None]]
    assert found["charts"][0]["lines"] == {"a": [[1, 2.0]]}
    assert (found["name"], found["query_set"], found["notes"]) == ("depth", "dev", ["two topics"])


def test_times_and_counts_have_one_digit_at_most():
    assert shown(1285.75, "ms/query") == "1,285.8" and shown(60.0, "inferences/query") == "60"
    assert shown(60.5, "inferences, needed") == "60.5" and shown(0.5, "mean") == "0.5000"


def test_a_text_is_one_line_without_what_moves_a_cursor_or_turns_the_text():
    assert plain(" a\tb\r\nc\u2028d\u00a0e ") == "a b c d e"
    assert plain("\x1b[31mred\x07\x7f\x9b") == f"{UNSHOWN}[31mred{UNSHOWN * 3}"
    assert plain("a\u202eb\u2066c\u2069") == f"a{UNSHOWN}b{UNSHOWN}c{UNSHOWN}"


def test_other_letters_and_marks_stay():
    assert plain("<b>ζ日本\u200d👩\u0301</b>") == "<b>ζ日本\u200d👩\u0301</b>"
