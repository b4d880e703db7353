"""Two workspaces side by side: what is compared, what is named, what is refused."""

import json
import re
import shutil
from html import escape, unescape
from math import fsum
from pathlib import Path

import pytest

from raypipe.analysis.section import shown
from raypipe.cli.main import run
from raypipe.driver.analysis.finished import open_finished
from raypipe.driver.analysis.measuring import measured
from raypipe.driver.analysis.pages.beside import beside
from raypipe.driver.analysis.report import report_beside
from raypipe.errors import InputError
from raypipe.evaluation.compare import compare


@pytest.fixture(scope="module")
def shallow(analysed):
    """The same recipe with fewer candidates, and another measure."""
    return analysed(k0=4, k1=3, name="shallow", measures=["RR@10", "nDCG@10"])


def rows_of(section):
    table = section.tables[0]
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def test_systems_of_one_name_are_compared_as_compare_does(finished, shallow):
    section, _ = beside(finished, shallow)
    rows = rows_of(section)
    assert [(row["system"], row["measure"]) for row in rows] == [
        (name, "RR@10") for name in ("dense", "given", "first", "second", "least")
    ]
    by_name = {row["system"]: row for row in rows}
    runs = {
        key: each.named(each.run("second", "test"), "test")
        for key, each in (("A", finished), ("B", shallow))
    }
    judged = finished.judgements("test")
    expected = compare(runs, judged, ["RR@10"], baseline="A").rows[1]
    row = by_name["second"]
    assert (row["difference"], row["low"], row["high"]) == (
        expected.difference.mean, expected.difference.low, expected.difference.high,
    )  # fmt: skip
    assert row["p"] == expected.p_randomisation
    assert row["wins/ties/losses"] == f"{expected.wins}/{expected.ties}/{expected.losses}"
    assert row["A"] == finished.summary["measures"]["test"]["second"]["RR@10"]
    assert by_name["dense"]["difference"] == 0 and by_name["dense"]["p"] == 1
    assert "in A alone: measure R@5" in section.notes
    assert "in B alone: measure nDCG@10" in section.notes


def test_what_differs_in_the_making_is_told_and_nothing_else(finished, shallow):
    _, making = beside(finished, shallow)
    settings, versions, stores = making.tables
    assert [list(row) for row in settings.rows] == [
        ["stages.given.runs.test", *paths(finished, shallow, "test")],
        ["stages.given.runs.other", *paths(finished, shallow, "other")],
        ["stages.first.k0", "8", "4"],
        ["stages.pairs.k1", "5", "3"],
        ["stages.second.k1", "5", "3"],
        ["stages.least.k1", "5", "3"],
        ["evaluate.measures", "[RR@10, R@5]", "[RR@10, nDCG@10]"],
    ]
    assert not versions.rows
    names = {row[0] for row in stores.rows}
    assert {"first.test", "second.test"} <= names and "dense.test" not in names


def paths(one, other, query_set):
    return [each.recipe.stages["given"].runs[query_set] for each in (one, other)]


def test_pairs_of_other_names_are_compared_too(finished, shallow):
    section, _ = beside(finished, shallow, [("dense", "first")])
    row = rows_of(section)[-1]
    means = [each.summary["measures"]["test"] for each in (finished, shallow)]
    assert row["system"] == "dense and first"
    assert row["A"] == means[0]["dense"]["RR@10"] and row["B"] == means[1]["first"]["RR@10"]
    with pytest.raises(InputError, match="--pair dense=no: .*shallow has dense, given"):
        beside(finished, shallow, [("dense", "no")])


def with_judgements(opened, tmp_path, change):
    """A copy of the workspace whose judgements are `change(lines)` from now on."""
    copy = shutil.copytree(opened.workspace.folder, tmp_path / "copy")
    qrels = opened.recipe.queries["test"].qrels
    with open(qrels) as stream:
        lines = change(stream.read().splitlines())
    (tmp_path / "qrels.txt").write_text("\n".join(lines) + "\n")
    recipe = copy / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace(qrels, str(tmp_path / "qrels.txt")))
    return open_finished(copy)


def test_only_queries_with_the_same_judgements_are_compared(finished, tmp_path):
    def change(lines):
        return [*(line for line in lines if not line.startswith("q3")), "q2 0 p8 1"]

    other = with_judgements(finished, tmp_path, change)
    section, _ = beside(finished, other)
    assert "left out: 1 queries judged in A alone" in section.notes
    assert "left out: 1 queries whose judgements differ" in section.notes
    assert section.lead.startswith("1 queries that both judge alike")
    found = measured(finished, "test", finished.run("given", "test"), ["RR@10"])
    row = next(row for row in rows_of(section) if row["system"] == "given")
    assert row["A"] == fsum([found.per_query["RR@10"]["q1"]])


def test_nothing_in_common_is_refused(finished, tmp_path):
    other = with_judgements(finished, tmp_path, lambda lines: ["q2 0 p8 1"])
    with pytest.raises(InputError, match="expected a query set of one name .* found none"):
        beside(finished, other)


def test_the_page_lies_apart_and_its_cells_are_those_of_its_twins(
    finished, shallow, tmp_path, capsys
):
    before = (finished.workspace.folder / "summary.json").read_bytes()
    folders = [str(each.workspace.folder) for each in (finished, shallow)]
    out = tmp_path / "out"
    assert run(["report", *folders, "--out", str(out), "--pair", "dense=first"])[0] == 0
    assert capsys.readouterr().out == f"{out / 'report.html'}\n"
    page = (out / "report.html").read_text()
    twins = [json.loads((out / f"analysis/{n}.json").read_text()) for n in
             ("side-by-side.test", "what-differs")]  # fmt: skip
    cells = [
        escape(value) if isinstance(value, str) else escape(shown(value, column))
        for twin in twins
        for table in twin["tables"]
        for row in table["rows"]
        for value, column in zip(row, table["columns"], strict=True)
    ]
    assert re.findall(r"<td[^>]*>([^<]*)</td>", page) == cells
    facts = [unescape(each) for each in re.findall(r"<dd>([^<]*)</dd>", page)]
    assert facts == [each for twin in twins for each in twin["facts"].values()]
    assert (finished.workspace.folder / "summary.json").read_bytes() == before
    for wrong in (["--out", folders[1]], ["--pair", "dense"]):
        assert run(["report", *folders, *wrong])[0] == 2
    assert run(["report", folders[0], "--out", str(out)])[0] == 2


def test_a_workspace_and_a_file_are_no_place_for_it(finished, shallow, tmp_path):
    with pytest.raises(InputError, match="it is a workspace"):
        report_beside(finished, shallow, shallow.workspace.folder)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="--out .*: expected a folder, found the file"):
        report_beside(finished, shallow, tmp_path / "file")


def test_a_workspace_named_by_a_dot_has_its_folders_name(finished, shallow, tmp_path, monkeypatch):
    monkeypatch.chdir(finished.workspace.folder)
    here = open_finished(Path("."))
    page = report_beside(here, shallow, tmp_path / "both")
    title = re.findall("<h1>(.*)</h1>", page.read_text())
    assert title == [f"raypipe: {finished.workspace.folder.name} (A) and shallow (B)"]
    monkeypatch.chdir(tmp_path)
    assert report_beside(finished, shallow) == Path("work-beside-shallow/report.html")
