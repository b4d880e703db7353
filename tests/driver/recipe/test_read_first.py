"""Queries, judgements and names of measures are read before the first store."""

import os

import pytest

from raypipe.config.parts import Evaluate
from raypipe.driver.pipeline import run_pipeline
from raypipe.driver.recipe.read_first import read_first
from raypipe.errors import InputError


@pytest.fixture
def measured(invocable):
    """The folder and its recipe, with measures."""
    folder, recipe = invocable
    return folder, recipe.model_copy(update={"evaluate": Evaluate(measures=("RR@10",))})


def test_judgements_of_the_sets_that_will_be_measured(measured):
    folder, recipe = measured
    found = read_first(recipe)
    rows = {key: table.num_rows for key, table in found.items()}
    assert rows == {("dev", "passages"): 2, ("all", "passages"): 2}
    assert read_first(recipe.model_copy(update={"evaluate": None})) == {}


def test_all_problems_are_told_at_once(measured):
    folder, recipe = measured
    (folder / "qrels.txt").write_text("q1 0 p0 much\n")
    (folder / "queries.tsv").write_text("no tab\n")
    recipe = recipe.model_copy(update={"evaluate": Evaluate(measures=("RR@10", "nDGC@10"))})
    with pytest.raises(InputError) as raised:
        read_first(recipe)
    told = str(raised.value)
    assert "nDGC@10" in told and "qrels.txt: line 1: expected an integer grade" in told
    assert "queries.tsv: line 1: expected id TAB text" in told


def test_judgements_of_other_queries_are_refused_before_any_work(measured):
    folder, recipe = measured
    (folder / "qrels.txt").write_text("z1 0 p0 1\nz2 0 p0 1\n")
    with pytest.raises(InputError) as raised:
        read_first(recipe)
    (problem,) = raised.value.problems
    assert "qrels.txt: expected judgements of queries of " in problem and "(z1, z2)" in problem
    unmeasured = recipe.model_copy(update={"evaluate": None})
    with pytest.raises(InputError) as again:  # no query of dev, of `only_judged`, would be kept
        read_first(unmeasured)
    assert again.value.problems == [problem]
    (folder / "documents.txt").write_text("q1 0 d0 1\n")  # which keep a query of the set
    more = {"document_qrels": str(folder / "documents.txt")}
    both = {"dev": recipe.queries["dev"].model_copy(update=more)}
    assert read_first(unmeasured.model_copy(update={"queries": both})) == {}
    with pytest.raises(InputError) as measuring:
        read_first(recipe.model_copy(update={"queries": both}))
    assert measuring.value.problems == [problem]
    every = {"all": recipe.queries["all"]}
    assert read_first(unmeasured.model_copy(update={"queries": every})) == {}
    (folder / "qrels.txt").write_text("z1 0 p0 1\nq1 0 p0 1\n")
    assert read_first(recipe)["dev", "passages"].num_rows == 2


def test_grades_that_a_measure_does_not_take_are_refused_with_their_file(measured):
    folder, recipe = measured
    (folder / "qrels.txt").write_text("q1 0 p0 5\n")
    recipe = recipe.model_copy(update={"evaluate": Evaluate(measures=("RR@10", "ERR@10"))})
    with pytest.raises(InputError, match=r"qrels.txt: measure 'ERR@10': expected grades up to 4"):
        read_first(recipe)
    recipe = recipe.model_copy(update={"evaluate": Evaluate(measures=("RR@10", "nDGC@10"))})
    with pytest.raises(InputError) as raised:
        read_first(recipe)
    assert len(raised.value.problems) == 1


DAMAGES = {
    "a grade": lambda path: path.write_text("q1 0 p0 much\n"),
    "no line": lambda path: path.write_text(""),
    "bytes": lambda path: path.write_bytes(b"\xff\xfe"),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "a device": lambda path: (path.unlink(), path.symlink_to("/dev/zero")),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.mark.parametrize("name", ["qrels.txt", "queries.tsv"])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_bad_judgements_and_queries_cost_no_store(measured, tmp_path, name, damage):
    folder, recipe = measured
    damage(folder / name)
    with pytest.raises(InputError, match=name):
        run_pipeline(recipe, tmp_path / "work", watcher=None)
    assert not list(tmp_path.glob("work/stores/*@*")) and not list(
        tmp_path.glob("work/stores/blobs")
    )
