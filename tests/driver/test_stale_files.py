"""Runs, measures and tables of another recipe or of other inputs do not stand beside new ones."""

import shutil

import pytest
from recipes import invoke
from small_workspace import SMALL, run_small

from raypipe.driver.summaries import read_summary
from raypipe.driver.upkeep.status import open_workspace
from raypipe.driver.upkeep.verify import verify
from raypipe.errors import InputError


class Work:
    """A folder with the inputs of the small recipe, and its workspace, which is elsewhere."""

    def __init__(self, folder, model, out):
        self.folder, self.model, self.out, self.said = folder, model, out, []

    def run(self, *overrides, until=None, single=False, **renamed):
        """Run the recipe with some words changed."""
        text = SMALL.format(folder=self.folder, model=self.model)
        for old, new in renamed.items():
            text = text.replace(f"{old}:", f"{new}:").replace(f", {old}]", f", {new}]")
        self.said = []
        invoke(text, self.out, *overrides, said=self.said, until=until, single=single)
        assert verify(open_workspace(self.out)) == []

    def results(self):
        """The names of the files of results."""
        found = {path.relative_to(self.out) for path in self.out.rglob("*") if path.is_file()}
        kept = ("runs", "measures", "table.md")
        return {path.as_posix() for path in found if path.parts[0] in kept}

    def removed(self):
        """What the last invocation said that it removed."""
        lines = [line for line in self.said if line.startswith("removed ")]
        return set(lines[0].partition(": ")[2].split(", ")) if lines else set()


def fails(*arguments):
    raise InputError("a mistake")


@pytest.fixture
def work(small_workspace, tiny_model, tmp_path):
    """A copy of the small workspace, in which all was run."""
    out = shutil.copytree(small_workspace[0], tmp_path / "work", copy_function=shutil.copy2)
    return Work(small_workspace[0].parent, tiny_model, out)


def runs(*names):
    return {f"runs/dev/{name}.{ending}" for name in names for ending in ("trec", "tsv")}


MEASURED = {"measures/dev.tsv", "table.md"}
ALL = runs("dense", "given", "fused") | MEASURED


def test_the_run_of_a_renamed_stage_is_removed_and_a_users_own_files_stay(work):
    assert work.results() == ALL
    (work.out / "runs" / "dev" / "mine.trec").write_text("q1 Q0 p0 1 1 mine\n")
    (work.out / "runs" / "dev" / "dense.tsv").write_text("edited\n")
    work.run(dense="renamed")
    mine = {"runs/dev/mine.trec", "runs/dev/dense.tsv"}
    assert work.results() == ALL - runs("dense") | runs("renamed") | mine
    assert work.removed() == {"runs/dev/dense.trec"}
    assert not (mine | {"runs/dev/dense.trec"}) & {*read_summary(work.out)["files"]}


def test_results_that_were_edited_are_named_and_written_anew(work, caplog):
    run, table = work.out / "runs" / "dev" / "dense.trec", work.out / "table.md"
    before = run.read_bytes(), table.read_bytes()
    run.write_text("edited\n")
    table.unlink()
    with caplog.at_level("INFO", logger="raypipe"):
        work.run()
    told = "not as the last invocation left them, and written anew: runs/dev/dense.trec, table.md"
    assert told in caplog.text and (run.read_bytes(), table.read_bytes()) == before
    caplog.clear()
    work.run()
    assert "written anew" not in caplog.text


def test_runs_of_another_recipe_and_of_single_stages_stay(work):
    """Two recipes in turn in one folder; each removes its own files alone."""
    work.run("name=other", dense="renamed")
    assert work.results() == ALL | runs("renamed") and not work.removed()
    work.run(dense="again")
    assert work.removed() == runs("dense")
    assert work.results() == ALL - runs("dense") | runs("renamed", "again")
    for verb in ("alone1", "alone2"):
        work.run("name=single", single=True, dense=verb)
    assert work.results() >= runs("renamed", "again", "alone1", "alone2")
    work.run("name=other", dense="last")
    assert work.removed() == runs("renamed")


def test_a_run_that_the_recipe_reads_from_its_own_workspace_stays(work):
    run = work.out / "runs" / "dev" / "dense.trec"
    work.run(f"stages.given.runs.dev={run}", "stages.fused.depth=2", dense="renamed")
    assert work.results() == ALL - {"runs/dev/dense.tsv"} | runs("renamed")


def test_tables_and_measures_go_with_the_evaluation(work):
    work.run("evaluate=null")
    assert work.results() == ALL - MEASURED and work.removed() == MEASURED


def test_after_a_part_of_the_stages_the_files_of_the_others_stay_where_nothing_changed(work):
    for until in ("vectors", "dense", "given"):
        work.run(until=until)
        assert work.results() == ALL and not work.removed()
    work.run("resources.actors=1", "evaluate.topics=others", until="dense")
    assert work.results() == ALL and not work.removed()


@pytest.mark.parametrize("change", ["stages.dense.depth=1", "stages.fused.depth=2", "passages"])
def test_after_a_part_of_the_stages_the_files_of_other_inputs_are_removed(work, tmp_path, change):
    overrides = [change] if "=" in change else []
    if not overrides:
        work.folder = shutil.copytree(work.folder, tmp_path / "files")
        file = work.folder / f"{change}.tsv"
        file.write_text(file.read_text().replace("zebra", "shard"))
    work.run(*overrides, until="dense")
    assert work.results() == runs("dense") | MEASURED
    assert work.removed() == runs("given", "fused")
    work.run(*overrides)
    work.run(*overrides, until="dense")
    assert work.results() == ALL


def test_a_part_that_was_made_of_other_inputs_than_a_later_part_is_removed(work):
    shutil.rmtree(work.out)
    work.run(until="dense")
    work.run(until="given")
    assert work.results() == runs("dense", "given") | MEASURED
    work.run("stages.dense.depth=1", until="given")
    assert work.results() == runs("given") | MEASURED


def test_what_a_failed_invocation_left_over_is_removed_by_the_next_one(work, monkeypatch):
    with monkeypatch.context() as failing:
        failing.setattr("raypipe.driver.pipeline.measure", fails)
        with pytest.raises(InputError):
            work.run(dense="renamed")
    assert work.results() == ALL and read_summary(work.out)["status"] == "failed"
    work.run(dense="renamed")
    assert work.results() == ALL - runs("dense") | runs("renamed")
    assert "earlier" not in read_summary(work.out)


@pytest.mark.parametrize("name", ["table.md", "runs/dev/dense.trec", "recipe.yaml"])
def test_a_folder_in_the_place_of_a_file_is_named_with_the_remedy(work, tmp_path, name):
    (work.out / name).unlink()
    (work.out / name / "deep").mkdir(parents=True)
    with pytest.raises(InputError) as refused:
        work.run("stages.dense.depth=1")
    path = work.out / name
    assert refused.value.problems == [
        f"{path}: expected a file or nothing, found a folder; move it away and run again"
    ]
    path.rename(tmp_path / "away")
    work.run("stages.dense.depth=1")
    assert work.results() == ALL


def test_a_file_in_the_place_of_a_folder_is_named_with_the_remedy(tmp_path, tiny_model):
    out = tmp_path / "work"
    out.mkdir()
    (out / "runs").write_text("mine")
    with pytest.raises(InputError, match=r"work/runs: expected a folder, found a file; move it"):
        run_small(tmp_path, tiny_model)
    assert (out / "runs").read_text() == "mine"
