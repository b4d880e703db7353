"""What `raypipe pipeline`, `table` and `recipes` show on a terminal, and in files and pipes."""

import re
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

import pytest
from on_terminal import on_terminal

STAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d "
RECIPE = """
format: 1
name: tiny
collection: {{format: msmarco-v1, input: {folder}/passages.tsv}}
queries: {{test: {{file: {folder}/queries.tsv, qrels: {folder}/qrels.txt}}}}
models: {{tiny: {{path: {model}}}}}
stages:
  vectors: {{do: encode, model: tiny}}
  dense: {{do: search, index: vectors, depth: 3}}
  again: {{do: search, index: vectors, depth: 2}}
  both: {{do: fuse, runs: [dense, again], method: rrf}}
evaluate: {{measures: [RR@10, nDCG@10, AP, R@2, P@1], baseline: dense}}
resources: {{backend: inline, device: cpu}}
"""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory, tiny_model):
    """A folder with a recipe and its inputs."""
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "passages.tsv").write_text("a\tthe zebra\nb\ta lease\nc\tof shards\n")
    (folder / "queries.tsv").write_text("1\tthe zebra\n2\ta lease\n")
    (folder / "qrels.txt").write_text("1 0 a 1\n2 0 b 1\n")
    (folder / "tiny.yaml").write_text(RECIPE.format(folder=folder, model=tiny_model))
    return folder


@pytest.mark.slow
def test_a_terminal_shows_one_display_of_all_stages_and_a_table_that_fits(inputs):
    shown = on_terminal("pipeline", inputs / "tiny.yaml", "--out", inputs / "shown", columns=70)
    assert shown.exit_code == 0
    told = re.split("[\r\n]", "\n".join(shown.lines))
    assert any(line.startswith("all stages ") and " of 12 complete" in line for line in told)
    assert any(re.match(r"vectors +\d of 3 rows", line) for line in told)
    assert not any(re.match(STAMP, line) or "parts@" in line for line in told)
    rules = [line for line in told if set(line.strip()) == {"─"}]
    assert len(rules) > 2 and max(map(len, rules)) <= 70
    assert not any(line.startswith("|") for line in told)
    *_, where, ended, last = shown.lines
    assert where.endswith(f" s: {inputs}/shown") and " stages, 0 reused, " in where
    assert (ended, last) == ("raypipe: exit 0 (complete)", "")


@pytest.fixture(scope="module")
def finished(inputs):
    """The workspace of a run in this process, whose last line says where the runs are."""
    from raypipe.cli.main import run

    with redirect_stdout(StringIO()), redirect_stderr(StringIO()) as told:
        assert run(["pipeline", str(inputs / "tiny.yaml"), "--out", f"{inputs}/work"])[0] == 0
    where = told.getvalue().splitlines()[-1]
    assert where.endswith(f" s: {inputs}/work") and " stages, 0 reused, " in where
    return inputs / "work"


@pytest.mark.slow
def test_a_pipe_gets_markdown_and_lines_with_times_in_words_of_the_recipe(
    finished, inputs, raypipe_cli
):
    done = raypipe_cli("pipeline", inputs / "tiny.yaml", "--out", finished)
    assert done.returncode == 0, done.stderr
    *told, where, ended = done.stderr.splitlines()
    assert all(re.match(STAMP, line) for line in [*told, where])
    assert len(told) <= 4, told
    assert where.endswith(f": {finished}") and ended == "raypipe: exit 0 (complete)"
    assert done.stdout.startswith("## test\n\n| system | reranks ")
    assert done.stdout == (finished / "table.md").read_text() + "\n"


def test_of_a_single_run_the_last_line_names_the_file(finished, inputs, raypipe_here):
    out, stores = inputs / "one", f"stores={finished}/stores"
    done = raypipe_here("pipeline", inputs / "tiny.yaml", "--until", "dense", "--out", out, stores)
    assert done.returncode == 0, done.stderr
    where = done.stderr.splitlines()[-1].rpartition(" s: ")[2]
    assert where == f"{out}/runs/test/dense.trec"
    assert (out / "runs/test/dense.trec").read_text().startswith("1 Q0 ")


@pytest.mark.slow
def test_a_table_is_drawn_on_a_terminal_and_markdown_where_that_is_asked_for(
    finished, raypipe_here
):
    piped = raypipe_here("table", finished).stdout
    asked = on_terminal("table", finished, "--format", "md", columns=60)
    drawn = on_terminal("table", finished, columns=60)
    assert piped.startswith("## test\n\n| system |") and asked.exit_code == drawn.exit_code == 0
    assert "\n".join(asked.lines).startswith(piped)
    assert not any(line.startswith("|") for line in drawn.lines)
    figures = re.findall(r"\d\.\d{4}", piped)
    assert len(figures) > 15
    assert sorted(re.findall(r"\d\.\d{4}", "\n".join(drawn.lines))) == sorted(figures)


def test_several_values_for_one_are_refused_with_the_remedy(inputs, raypipe_here):
    values = "stages.again.depth=[1, 2]"
    done = raypipe_here("pipeline", inputs / "tiny.yaml", "--out", inputs / "swept", values)
    assert done.returncode == 2 and not (inputs / "swept").exists()
    assert "expected a whole number; found a list; give one value, and for each" in done.stderr
