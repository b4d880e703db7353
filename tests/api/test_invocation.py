import threading

import pytest
from small_workspace import write_small

import raypipe
from raypipe.config.load import load_recipe
from raypipe.driver.execute import Watcher
from raypipe.driver.pipeline import run_pipeline
from raypipe.errors import CorruptError, InputError, RaypipeError, RefusedError, ending_of


def test_an_invocation_gives_its_runs_measures_and_table(made):
    assert made.summary["status"] == "complete"
    assert list(made.runs) == ["test"]
    assert list(made.runs["test"]) == ["dense", "mono", "duo-sum", "duo-min", "fused", "rrf"]
    assert made.runs is made.runs
    assert made.table.startswith((made.folder / "table.md").read_text()[:20])
    assert "duo-sum" in made.table
    assert len(repr(made)) < 200


def test_the_same_call_computes_nothing_again_and_a_change_is_refused_when_frozen(recipe, made):
    loaded = load_recipe(recipe)
    again = raypipe.run(loaded, made.folder, progress=True)
    assert all(stage["reused"] for stage in again.summary["stages"].values())
    assert again.runs["test"]["mono"].equals(made.runs["test"]["mono"])
    with pytest.raises(RefusedError, match="depth 15 -> 3"):
        raypipe.run(recipe, made.folder, overrides={"stages.rrf.depth": 3}, frozen=True)
    with pytest.raises(InputError, match="overrides: the recipe is loaded already"):
        raypipe.run(loaded, made.folder, overrides={"stages.rrf.depth": 3})


def test_a_part_of_a_recipe_gives_the_runs_of_that_part(recipe, tmp_path):
    found = raypipe.run(load_recipe(recipe), tmp_path / "work", until="dense")
    assert list(found.runs["test"]) == ["dense"]
    silent = {"silent": {**recipe["queries"]["test"], "report": False}}
    keys = {**recipe, "queries": {**recipe["queries"], **silent}}
    assert list(raypipe.run(keys, tmp_path / "silent", until="dense").runs) == ["test"]
    with pytest.raises(InputError, match="--until: no stage"):
        raypipe.run(recipe, tmp_path / "work", until="nothing")


def test_it_runs_in_another_thread(recipe, made):
    found = []
    thread = threading.Thread(target=lambda: found.append(raypipe.run(recipe, made.folder)))
    thread.start()
    thread.join()
    assert found[0].summary["status"] == "complete"


def test_stores_that_were_taken_away_are_told(recipe, tmp_path):
    import shutil

    from raypipe.errors import IncompleteError

    found = raypipe.run(recipe, tmp_path / "work", until="dense")
    shutil.rmtree(tmp_path / "work" / "stores" / "dense.test")
    with pytest.raises(IncompleteError, match="dense.test was deleted.*run its recipe again"):
        found.runs  # noqa: B018


@pytest.fixture
def fused(tmp_path):
    """A recipe of runs alone, over the small workspace's files."""
    write_small(tmp_path)
    return {
        "format": 1,
        "name": "fused",
        "collection": {"format": "msmarco-v1", "input": str(tmp_path / "passages.tsv")},
        "queries": {"dev": {"file": str(tmp_path / "queries.tsv")}},
        "stages": {"given": {"do": "read", "runs": {"dev": str(tmp_path / "run.trec")}}},
    }


@pytest.mark.parametrize("place", ["nonce", "blobs", "refs", "given.dev", "count@collection"])
def test_a_process_whose_storage_failed_runs_again(fused, tmp_path, place):
    stores = tmp_path / "stores"
    stores.mkdir()
    (stores / place).write_text("in the way")
    keys = {**fused, "stores": str(stores)}
    with pytest.raises((RaypipeError, NotADirectoryError), match=place) as refused:
        raypipe.run(keys, tmp_path / "work")
    assert ending_of(refused.value).exit_code in (2, 3)  # no bug
    (stores / place).unlink()
    assert raypipe.run(keys, tmp_path / "work").summary["status"] == "complete"


def test_a_process_whose_storage_failed_after_the_work_runs_again(fused, tmp_path):
    class Blocks(Watcher):
        """Puts a folder in the place of a word while workers have it, so it cannot be deleted."""

        blocked = None

        def began(self, name, report):
            if self.blocked is None:
                [self.blocked] = (tmp_path / "work/stores/nonce").rglob("word")
                self.blocked.unlink()
                self.blocked.mkdir()

    watcher, recipe = Blocks(), load_recipe({**fused, "resources": {"backend": "inline"}})
    with pytest.raises(CorruptError, match="word"):
        run_pipeline(recipe, tmp_path / "work", watcher=watcher)
    watcher.blocked.rmdir()
    assert raypipe.run(recipe, tmp_path / "work").summary["status"] == "complete"
