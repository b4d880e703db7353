"""Runs over a larger collection, and files that are gone, on the page and in tables."""

import json
import shutil

import pytest
import yaml

import raypipe
from raypipe.cli.main import run
from raypipe.errors import InputError
from raypipe.evaluation.tables import latex
from raypipe.report.contents import report
from raypipe.report.finished import Finished, open_finished
from raypipe.report.first_stages import depth
from raypipe.report.page import make_twins_folder
from raypipe.report.results import overview, results
from raypipe.report.tradeoff import tradeoff


def test_without_a_baseline_a_run_over_a_larger_collection_is_still_not_the_best(outside):
    opened, _ = outside
    order = ["given", "other", "own", "second"]
    systems = {name: opened.summary["systems"]["test"][name] for name in order}
    summary = {**opened.summary, "systems": {"test": systems}}
    for baseline in (None, "given"):
        evaluate = opened.recipe.evaluate.model_copy(update={"baseline": baseline})
        changed = opened.recipe.model_copy(update={"evaluate": evaluate})
        section = overview(Finished(opened.workspace, changed, summary), "test")
        assert (
            section.lead.startswith("own, the first system, has the best")
            and "given" not in section.lead
        )
        assert "baseline" not in section.lead


def test_latex_stars_it_and_does_not_call_it_the_highest(outside):
    text = latex(results(outside[0], "test"))
    (given,) = [line for line in text.splitlines() if line.strip().startswith("given")]
    assert given.strip().startswith("given$^{*}$ &") and "textbf" not in given
    assert "ranks the larger collection all of it" in text and r"\textbf{1.0000}" in text


def test_a_file_in_the_place_of_the_folder_of_analyses_is_an_error_of_the_user(outside, tmp_path):
    copy = shutil.copytree(outside[0].workspace.folder, tmp_path / "copy")
    (copy / "analysis").write_text("")
    with pytest.raises(InputError, match="expected a folder for analyses, found a file"):
        make_twins_folder(copy)


def test_judged_is_the_measure_of_that_name(outside):
    opened, _ = outside
    evaluate = opened.recipe.evaluate.model_copy(update={"measures": ("RR@10",)})
    recipe = opened.recipe.model_copy(update={"evaluate": evaluate})
    told = overview(Finished(opened.workspace, recipe, opened.summary), "test").tables[0]
    with_it = overview(opened, "test").tables[0]
    values = [
        [row[table.columns.index("Judged@10")] for row in table.rows] for table in (told, with_it)
    ]
    assert values[0] == pytest.approx(values[1])


def test_a_recipe_without_measures_is_an_error_of_the_user(analysed, capsys):
    folder = analysed(name="unmeasured", without="evaluate").workspace.folder
    for verb in ("depth", "tradeoff", "fusion", "queries"):
        assert run(["analyse", verb, str(folder), "--queries", "test"])[0] == 2
        told = capsys.readouterr().err
        assert "evaluate" in told and "Traceback" not in told


def test_a_count_is_shown_and_compared_with_nothing(analysed):
    opened = analysed(name="counted", measures=["NumRet", "RR@10"])
    systems, differences = overview(opened, "test").tables
    means = opened.summary["measures"]["test"]
    rows = {row[0]: dict(zip(systems.columns, row, strict=True)) for row in systems.rows}
    assert {name: row["NumRet"] for name, row in rows.items()} == {
        name: of_system["NumRet"] for name, of_system in means.items()
    }
    assert {row[1] for row in differences.rows} == {"RR@10"}
    assert overview(opened, "test").lead.startswith("first has the best RR@10, ")
    counts = overview(analysed(name="counts", measures=["NumRet"]), "test")
    assert len(counts.tables) == 1 and "3 topics" in counts.notes


def test_a_cell_ends_where_its_aggregation_drops_the_rest(analysed):
    opened = analysed(name="dropped", tail="drop", measures=["NumRet"])
    (section,) = tradeoff(opened, "test")
    (table,) = section.tables
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    told = opened.summary["measures"]["test"]
    found = {row["method"]: row["NumRet"] for row in rows}
    assert (found["sum"], found["min"]) == (told["second"]["NumRet"], told["least"]["NumRet"])
    assert (told["first"]["NumRet"], told["second"]["NumRet"]) == (3 * 20, 3 * 5)


def test_a_page_leaves_no_twin_of_an_earlier_recipe(analysed):
    opened = analysed(name="anew")
    twins = opened.workspace.folder / "analysis"
    twins.mkdir()
    for name in ("tradeoff-of-gone.test.json", "depth.gone.json", "mine.json"):
        (twins / name).write_text("{}")
    report(opened)
    names = {path.name for path in twins.iterdir()}
    assert "mine.json" in names and "depth.test.json" in names
    assert not any("gone" in name for name in names)


def test_query_sets_judged_by_document_alone_have_no_analysis_of_passages(
    given_documents, tmp_path, capsys
):
    folder = given_documents.workspace.folder
    assert run(["analyse", "depth", str(folder)])[0] == 2
    assert "only of documents" in capsys.readouterr().err
    recipe = yaml.safe_load((folder / "recipe.yaml").read_text())
    for name, line in (("passages.txt", "q1 0 D1#0 1\n"), ("run.trec", "q1 Q0 D1#0 1 9 x\n")):
        (tmp_path / name).write_text(line)
    both = {**recipe["queries"]["test"], "qrels": str(tmp_path / "passages.txt")}
    recipe["queries"]["both"] = both
    recipe["stages"]["given"]["runs"]["both"] = recipe["stages"]["given"]["runs"]["test"]
    runs = dict.fromkeys(recipe["queries"], str(tmp_path / "run.trec"))
    recipe["stages"]["found"] = {"do": "read", "runs": runs}
    raypipe.run(recipe, tmp_path / "work")
    assert run(["analyse", "depth", str(tmp_path / "work"), "--json"])[0] == 0
    sections = json.loads(capsys.readouterr().out)["sections"]
    assert [section["query_set"] for section in sections] == ["both"]
    assert depth(open_finished(tmp_path / "work"), "both").tables


def test_the_grid_ends_with_the_longest_list(analysed):
    (section,) = tradeoff(analysed(k0=30, k1=50, name="longer"), "test")
    (table,) = section.tables
    found = {(row[0], row[1], row[2], row[5]) for row in table.rows if row[2] in ("-", "sum")}
    assert found == {(20, 0, "-", 20), (20, 10, "sum", 20 + 90), (20, 20, "sum", 20 + 380)}


def test_inferences_needed_are_counted_from_lists_of_any_length(analysed):
    """`given` has 10 passages a query, of which k0 asks for 8; here q1 has 3 and q2 has 1."""
    opened = analysed(name="short", k0=8, k1=5, first="given", lengths={"q1": 3, "q2": 1})
    (section,) = tradeoff(opened, "test")
    (table,) = section.tables
    found = {row[2]: (row[4], row[5]) for row in table.rows}
    assert found["-"] == (8, (3 + 1 + 8) / 3)
    assert found["sum"] == (8 + 20, (3 + 1 + 8 + 3 * 2 + 0 + 5 * 4) / 3)


def test_a_run_over_a_larger_collection_is_marked_and_neither_best_nor_compared(outside):
    section = overview(outside[0], "test")
    systems, differences = section.tables
    assert [row[0] for row in systems.rows] == ["own", "second", "given *", "other *"]
    assert systems.columns.count("Judged@10") == 1, "it is one of the recipe's measures"
    assert {row[0] for row in differences.rows} == {"second"}
    means = {row[0]: dict(zip(systems.columns, row, strict=True)) for row in systems.rows}
    assert means["given *"]["RR@10"] == means["own"]["RR@10"] == 1
    assert section.lead.startswith("own, the baseline, has the best RR@10")
    assert any(note.startswith("* a ranking of a larger collection") for note in section.notes)
    told = (outside[1] / "work" / "table.md").read_text()
    assert "no differences to own, which ranks another collection: given, other" in told
    assert "| given " not in told.partition("Difference to own")[2]


def test_if_the_baseline_is_best_the_next_best_is_told_with_its_difference(outside):
    section = overview(outside[0], "test")
    (row,) = [row for row in section.tables[1].rows if row[1] == "RR@10"]
    # own has q1's and q2's relevant passage first; second has q1's at rank 2.
    assert section.lead.startswith(
        "own, the baseline, has the best RR@10, 1.0000; next is second, 0.7500: 0.2500 less"
    )
    assert f"(95% interval {row[3]:+.4f} to {row[4]:+.4f}, p {row[6]:.4f})" in section.lead
