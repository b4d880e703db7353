import pytest
from recipes import invoke

RECIPE = """
format: 1
name: outside
collection: {format: msmarco-v1, input: "FOLDER/passages.tsv"}
queries: {test: {file: "FOLDER/queries.tsv", qrels: "FOLDER/qrels.txt"}}
stages:
  own:   {do: read, runs: {test: "FOLDER/own.trec"}}
  given: {do: read, runs: {test: "FOLDER/given.trec"}, larger_collection: all of it (9 passages)}
evaluate: {measures: ["RR@10"]}
resources: {backend: inline}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "passages.tsv").write_text("p0\ta\np1\tb\n")
    (tmp_path / "queries.tsv").write_text("q1\ta\n")
    (tmp_path / "qrels.txt").write_text("q1 0 p1 1\n")
    (tmp_path / "own.trec").write_text("q1 Q0 p0 1 2 x\nq1 Q0 p1 2 1 x\n")
    (tmp_path / "given.trec").write_text("q1 Q0 far 1 3 x\nq1 Q0 p1 2 2 x\nq1 Q0 p0 3 1 x\n")
    return tmp_path


def test_a_table_marks_a_run_over_a_larger_collection_and_prints_the_lines_lost(folder):
    done = invoke(RECIPE.replace("FOLDER", str(folder)), folder / "work")
    table = (folder / "work" / "table.md").read_text()
    line = next(line for line in table.splitlines() if line.startswith("| given"))
    assert "as read, a ranking of all of it (9 passages)" in line and "1.0000" in line
    assert (
        "given ranks all of it (9 passages), not this collection: 1 of its 3 lines are of passages "
        "that are not here and were left out"
    ) in table
    own = next(line for line in table.splitlines() if line.startswith("| own"))
    assert "a ranking of" not in own and "own ranks" not in table
    assert done.summary["systems"]["test"]["given"]["reranks"].endswith("(9 passages)")


def test_a_stage_with_one_run_cuts_it_in_its_own_order_and_with_its_own_scores(folder):
    text = RECIPE.replace("FOLDER", str(folder)).replace(
        "evaluate:", "  cut:   {do: fuse, runs: [own], depth: 1}\nevaluate:"
    )
    done = invoke(text, folder / "work")
    assert (folder / "work/runs/test/cut.trec").read_text() == "q1 Q0 p0 1 2 cut\n"
    system = done.summary["systems"]["test"]["cut"]
    assert (system["reranks"], system["model"]) == ("own", "first 1")
