"""Runs over a larger collection, and files that are gone, on the page and in tables."""

import shutil

import pytest

from raypipe.errors import InputError
from raypipe.evaluation.tables import latex
from raypipe.report.finished import Finished
from raypipe.report.overview import overview
from raypipe.report.page import make_twins_folder
from raypipe.report.results import results


def test_without_a_baseline_a_run_over_a_larger_collection_is_still_not_the_best(outside):
    opened, _ = outside
    order = ["given", "other", "own", "second"]
    systems = {name: opened.summary["systems"]["test"][name] for name in order}
    summary = {**opened.summary, "systems": {"test": systems}}
    for baseline in (None, "given"):
        evaluate = opened.recipe.evaluate.model_copy(update={"baseline": baseline})
        changed = opened.recipe.model_copy(update={"evaluate": evaluate})
        section = overview(Finished(opened.workspace, changed, summary), "test")
        assert " own, the first system," in section.lead and "given" not in section.lead
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
