"""Tables on a terminal have all that the Markdown has, and are no wider than the terminal."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from on_terminal import on_terminal
from rich.cells import cell_len
from rich.console import Console

from raypipe.cli.main import run as command
from raypipe.cli.terminal import drawn_tables, show, show_columns
from raypipe.evaluation.tables import escaped
from raypipe.markdown import Table, Text, shown

SYSTEMS = ["bm25", "dense-of-minilm", "bm25-then-mono-then-duo"]
MEASURES = ["nDCG@10", "RR@10", "R@100", "AP", "P@5"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Three runs of two queries, and judgements."""
    folder = tmp_path_factory.mktemp("runs")
    paths = []
    for shift, system in enumerate(SYSTEMS):
        path = folder / f"{system}.trec"
        lines = [
            f"{q} Q0 p{(n + shift) % 4} {n + 1} {9 - n} {system}\n" for q in "ab" for n in range(4)
        ]
        path.write_text("".join(lines))
        paths.append(path)
    (folder / "qrels.txt").write_text("a 0 p1 1\nb 0 p2 1\nb 0 p3 1\n")
    return [*paths, "--qrels", folder / "qrels.txt", "--measures", " ".join(MEASURES)]


def words(text):
    """All that is no blank and no line of a table's border, sorted."""
    return sorted(re.sub(r"[\s|─-]", "", text))


@pytest.mark.slow
@pytest.mark.parametrize("columns", [60, 100, 200])
def test_evaluate_fits_the_terminal_and_keeps_every_figure(runs, raypipe_here, columns):
    piped = raypipe_here("evaluate", *runs)
    shown = on_terminal("evaluate", *runs, columns=columns)
    assert shown.exit_code == piped.returncode == 0
    assert max(map(len, shown.lines[:-2])) <= columns
    figures = re.findall(r"\d\.\d{4}", piped.stdout)
    assert len(figures) == len(SYSTEMS) * len(MEASURES)
    assert sorted(re.findall(r"\d\.\d{4}", "\n".join(shown.lines))) == sorted(figures)
    assert piped.stdout.startswith("run\tnDCG@10 (n=2)\t"), "as before in a pipe"
    assert "\t" not in shown.raw


@pytest.mark.slow
def test_compare_is_markdown_in_a_pipe_and_drawn_on_a_terminal(runs, raypipe_here):
    piped = raypipe_here("compare", *runs)
    shown = on_terminal("compare", *runs, columns=72)
    assert shown.exit_code == piped.returncode == 0
    assert piped.stdout.count("\n|-") >= len(MEASURES) and "─" not in piped.stdout
    drawn = [line for line in shown.lines if "─" in line]
    assert len(drawn) > len(MEASURES), "columns that do not fit are in tables of their own"
    assert max(map(len, drawn)) <= 72
    assert not [line for line in shown.lines if line.startswith("|")]
    for line in piped.stdout.splitlines():
        if line and not line.startswith("|"):
            assert line in "\n".join(shown.lines).replace("\n\n", "\n")


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def drawn(monkeypatch):
    """A function that shows a text on a terminal of so many columns and gives what it got."""

    def on(columns, text, term="xterm"):
        stream = Terminal()
        monkeypatch.setattr("sys.stdout", stream)
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("TERM", term)
        show(text)
        return re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())

    return on


def test_a_terminal_that_knows_no_colours_has_its_width_too(drawn):
    text = Text([Table("", ["system", "AP"], [["a name of many words", 0.25]])])
    wide = drawn(24, text, term="dumb")
    assert max(map(len, wide.splitlines())) <= 24 and wide == drawn(24, text)


def test_a_table_that_fits_stays_one_with_numbers_to_the_right(drawn):
    table = Table("", ["system", "AP"], [["bm25", "0.25"], ["dense", "12.5"]])
    assert drawn(40, Text(["## test", "", table, "", "- a note", ""])).splitlines() == [
        "test",
        "",
        "system     AP",
        "─────────────",
        "bm25     0.25",
        "dense    12.5",
        "",
        "- a note",
    ]


def test_a_table_without_rows_is_its_header(drawn):
    lines = drawn(40, Text([Table("", ["system", "AP"], [])])).splitlines()
    assert [line.rstrip() for line in lines] == ["system   AP", "───────────"]


def test_a_first_column_of_numbers_stands_to_the_left(drawn):
    table = Table("", ["n", "AP"], [["5", "0.25"], ["1000", "0.5"]])
    assert drawn(40, Text([table])).splitlines()[2:] == ["5      0.25", "1000    0.5"]


def test_columns_without_room_follow_in_a_table_of_their_own_behind_the_first_column(drawn):
    header = ["system", "AP", "nDCG@10", "ms/query"]
    table = Table("", header, [["bm25", 0.25, 0.5, 1.5]])
    assert drawn(24, Text([table])).splitlines() == [
        "system       AP",
        "───────────────",
        "bm25     0.2500",
        "",
        "system   nDCG@10",
        "────────────────",
        "bm25      0.5000",
        "",
        "system   ms/query",
        "─────────────────",
        "bm25          1.5",
    ]


def test_a_long_text_is_folded_at_its_blanks(drawn):
    text = "the first thousand of bm25"
    table = Table("", ["system", "reranks"], [["mono", text]])
    assert drawn(24, Text([table])).splitlines() == [
        "system   reranks        ",
        "────────────────────────",
        "mono     the first      ",
        "         thousand of    ",
        "         bm25           ",
    ]


def test_a_bar_is_a_bar_and_other_lines_stay_as_they_are(drawn):
    text = Text([Table("", ["a", "b"], [["x|y", "[red]z"]]), "", "| no table", "#x"])
    lines = drawn(60, text).splitlines()
    assert lines[2].split() == ["x|y", "[red]z"]
    assert lines[3:] == ["", "| no table", "#x"]


def test_columns_are_drawn_on_a_terminal_and_have_tabs_elsewhere(monkeypatch, capsys):
    lines = [["run", "AP"], ["a|b", "0.25"], ["c", "12.5"]]
    show_columns(lines)
    assert capsys.readouterr().out == "run\tAP\na|b\t0.25\nc\t12.5\n"
    stream = Terminal()
    monkeypatch.setattr("sys.stdout", stream)
    monkeypatch.setenv("COLUMNS", "40")
    show_columns(lines)
    assert re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue()).splitlines() == [
        "run     AP",
        "──────────",
        "a|b   0.25",
        "c     12.5",
    ]


def test_the_table_of_an_earlier_invocation_is_drawn_when_it_stands(work, monkeypatch):
    stream = Terminal()
    monkeypatch.setattr("sys.stdout", stream)
    monkeypatch.setenv("COLUMNS", "100")
    assert command(["pipeline", str(work.parent / "recipe.yaml"), "--out", str(work)])[0] == 0
    lines = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue()).splitlines()
    assert lines[0] == "test" and lines[2].split()[:2] == ["system", "reranks"]
    assert set(lines[3].strip()) == {"─"} and not [line for line in lines if line[:1] == "|"]


def test_a_long_line_outside_of_tables_is_left_to_the_terminal(drawn):
    line = "    raypipe pipeline quickstart --out work stages.fused.method=alternate"
    assert drawn(30, line) == line + "\n"


texts = st.text("ab 0.|日[]\\", max_size=20).map(lambda text: text.strip() or "-")


@given(
    st.integers(1, 7).flatmap(
        lambda wide: st.lists(st.lists(texts, min_size=wide, max_size=wide), min_size=2, max_size=5)
    ),
    st.integers(30, 120),
)
def test_no_cell_is_cut_and_no_line_is_wider(lines, width):
    stream = io.StringIO()
    console = Console(file=stream, width=width)
    tables = list(drawn_tables(Table("", lines[0], lines[1:]), width))
    for table in tables:
        console.print(table)
    shown = stream.getvalue()
    assert max(map(cell_len, shown.splitlines())) <= width
    first = "".join(line[0] for line in lines)
    whole = "".join(each for line in lines for each in line)
    assert words(shown) == words(whole + first * (len(tables) - 1))


def test_the_name_of_a_run_stays_in_its_cell_and_commands_no_terminal(tmp_path, capsys):
    for name in ("a\nb\t\x1b[31m.trec", "plain.trec"):
        (tmp_path / name).write_text("q Q0 d 1 2 x\nq Q0 e 2 1 x\n")
    (tmp_path / "qrels").write_text("q 0 d 1\n")
    runs = [f"{tmp_path}/a\nb\t\x1b[31m.trec", f"{tmp_path}/plain.trec"]
    options = ["--qrels", f"{tmp_path}/qrels", "--measures", "RR@10"]
    written = f"{tmp_path}/a\\nb\\t\\x1b[31m.trec"
    assert command(["evaluate", *runs, *options])[0] == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["run\tRR@10 (n=1)", f"{written}\t1.0000", f"{runs[1]}\t1.0000"]
    per_query = tmp_path / "per-query.tsv"
    assert command(["compare", *runs, *options, "--per-query", str(per_query)])[0] == 0
    out = capsys.readouterr().out
    assert out.count(written) == 2 and "\x1b" not in out
    assert f"Differences to {written}. Holm" in out
    assert per_query.read_text().splitlines()[1] == f"q\tRR@10\t{written}\t1.0\t0.0"
    assert command(["evaluate", *runs, *options, "--json"])[0] == 0
    assert "\x1b" not in capsys.readouterr().out
    assert shown("a\x1b[1mb\nc|d") == "a\\x1b[1mb c|d"
    assert escaped("a\x1b\nb_") == r"a\textbackslash{}x1b b\_"
