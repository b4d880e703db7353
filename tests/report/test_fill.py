"""The pairs that a grid lacks are scored beside the runs, as a recipe of its cells scores them."""

import errno
import json
import os
import shutil
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from raypipe import schema
from raypipe.cli.main import run
from raypipe.config import load_recipe, read_resolved
from raypipe.driver.execute import Watcher
from raypipe.driver.pipeline import Options, run_pipeline
from raypipe.driver.upkeep.gc import find_garbage
from raypipe.driver.upkeep.verify import verify
from raypipe.errors import InputError, RefusedError
from raypipe.report import fill as filling
from raypipe.report.cells import filled, grid_of, stages_of
from raypipe.report.fill import fill
from raypipe.report.finished import open_finished
from raypipe.report.tradeoff import tradeoff
from raypipe.storage.lease import acquire

TABLE = "filled@pairs.test"


@pytest.fixture(autouse=True)
def small_grid(monkeypatch):
    """The grid has 5 candidates below the recipe's 8, and 3 below its 5 for the pairs."""
    monkeypatch.setattr("raypipe.report.cells.K0S", (5,))
    monkeypatch.setattr("raypipe.report.cells.K1S", (3,))
    monkeypatch.setitem(filling.sizing_of.__globals__["SHARD_TOKENS"], "cpu", 150)


@pytest.fixture(scope="module")
def own(analysed):
    """A workspace with its stores inside."""
    return analysed(name="own", without="stores").workspace.folder


@pytest.fixture(scope="module")
def fewer(analysed):
    """The same recipe with k0 5, in stores of its own."""
    return analysed(k0=5, name="fewer", without="stores")


@pytest.fixture
def work(own, tmp_path):
    """A copy with its stores."""
    return shutil.copytree(own, tmp_path / "work")


def told(folder, watcher=None):
    lines = []
    fill(open_finished(folder), ["test"], watcher=watcher or Watcher(), say=lines.append)
    return lines


def store_of(folder):
    finished = open_finished(folder)
    (stages,) = stages_of(finished, "test")
    return filled(finished, "test", stages, grid_of(finished, "test", stages))


def by_key(table):
    names = ("query_row", "passage_row", "other_row")
    keys = zip(*(table[name].to_pylist() for name in names), strict=True)
    bits = table["score"].to_numpy().view(np.uint32).tolist()
    return dict(zip(keys, bits, strict=True))


def payloads(folder):
    """Of the filled store."""
    found = {}
    for name in (TABLE,):
        for manifest in (folder / "stores" / name).glob("*/manifest.json"):
            records = json.loads(manifest.read_text())["body"]["records"]
            found[name] = [record["sha256"] for record in records]
    return found


@pytest.mark.slow
def test_filled_scores_are_bitwise_those_of_a_recipe_with_that_k0(work, fewer):
    before = by_key(open_finished(work).pairs("pairs", "test"))
    device, line = told(work)
    scored = by_key(store_of(work).whole_table(schema.SCORES))
    whole = by_key(fewer.pairs("pairs", "test"))
    assert scored == {key: bits for key, bits in whole.items() if key not in before} and scored
    assert device.startswith("device: ")
    assert line.startswith(f"filled@pairs.test: {len(scored)} pairs to score, ")
    assert line.endswith(" s as measured here")


def test_the_whole_grid_is_shown_then_and_its_cells_are_the_recipes_own(work, fewer):
    (before,) = tradeoff(open_finished(work), "test")
    told(work)
    (section,) = tradeoff(open_finished(work), "test")
    (table,) = section.tables
    assert len(before.tables[0].rows) < len(table.rows) == 2 + 2 * 2 * 4
    num = len(store_of(work).whole_table(schema.SCORES))
    assert f"{num} pairs were scored for this grid alone, with --fill" in section.notes
    cells = {tuple(row[:3]): dict(zip(table.columns, row, strict=True)) for row in table.rows}
    for system, method in (("second", "sum"), ("least", "min")):
        means = fewer.summary["measures"]["test"][system]
        assert {m: cells[5, 5, method][m] for m in means} == means
    assert not any("not scored" in note for note in section.notes)


def test_nothing_of_the_last_invocation_is_touched_and_nothing_is_scored_twice(work):
    outside = {p: p.read_bytes() for p in work.rglob("*") if p.is_file()}
    told(work)
    changed = {p for p, data in outside.items() if p.read_bytes() != data}
    assert {p.relative_to(work).parts[0] for p in changed} <= {"lease.json", "stores"}
    assert {p.relative_to(work).parts[1] for p in changed if "stores" in p.parts} == {"refs"}
    stood = {p: p.stat().st_mtime_ns for p in (work / "stores" / TABLE).rglob("*")}
    assert told(work) == ["every grid is filled already"]
    assert {p: p.stat().st_mtime_ns for p in (work / "stores" / TABLE).rglob("*")} == stood
    assert run(["status", str(work)])[0] == 0


class StoppedIn(Watcher):
    def __init__(self, store):
        self.store = store

    def advanced(self, store, report):
        if str(store) == self.store:
            raise KeyboardInterrupt


def test_a_fill_that_was_stopped_goes_on_with_the_same_bytes(own, tmp_path):
    calm, stopped = (shutil.copytree(own, tmp_path / name) for name in ("calm", "stopped"))
    told(calm)
    with pytest.raises(KeyboardInterrupt):
        told(stopped, StoppedIn(TABLE))
    assert store_of(stopped) is None
    done = len(list((stopped / "stores" / TABLE).glob("*/shards/*")))
    assert 0 < done < len(payloads(calm)[TABLE])
    told(stopped)
    assert payloads(stopped) == payloads(calm)


def test_verify_and_gc_know_the_scores_and_the_recipe_goes_on_as_before(work):
    told(work)
    workspace = open_finished(work).workspace
    assert verify(workspace) == []
    assert not find_garbage(workspace, spared_seconds=-60).stores
    recipe = load_recipe(read_resolved(work / "recipe.yaml"), source="again")
    again = run_pipeline(recipe, work, Options(), watcher=Watcher()).summary
    assert all(stage["reused"] for stage in again["stages"].values())
    assert told(work) == ["every grid is filled already"], "and it is kept"
    record = store_of(work).manifest.records[0]
    blob = work / "stores" / "blobs" / record.sha256[:2] / record.sha256
    blob.chmod(0o644)
    blob.write_bytes(b"x")
    (damage,) = verify(open_finished(work).workspace)
    assert damage.name.endswith(record.sha256) and "tradeoff --fill" in damage.remedy


def test_another_invocation_at_work_or_since_is_not_disturbed(work, monkeypatch):
    finished = open_finished(work)
    lease = acquire(finished.workspace.own, "lease.json")
    with pytest.raises(RefusedError, match="working|lease|holds"):
        fill(finished, ["test"], watcher=Watcher(), say=print)
    lease.release()
    older = replace(finished, summary={**finished.summary, "seconds": -1})
    with pytest.raises(RefusedError, match="meanwhile; fill again"):
        fill(older, ["test"], watcher=Watcher(), say=print)
    assert not (work / "stores" / TABLE).exists()


@pytest.mark.parametrize("code", [errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO])
def test_a_workspace_that_cannot_be_written_is_refused_with_what_to_do(own, monkeypatch, code):
    def failing(*args, **more):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("raypipe.driver.invocation.acquire", failing)
    refused = rf"cannot be written \({os.strerror(code)}\).*fill the copy"
    broken = code == errno.EIO
    with pytest.raises(OSError if broken else InputError, match=None if broken else refused):
        told(own)


def test_another_model_than_that_of_the_pairs_is_refused(work, tmp_path):
    finished = open_finished(work)
    duo = finished.recipe.models["duo"]
    folder = shutil.copytree(duo.path, tmp_path / "duo")
    weights = load_file(folder / "model.safetensors")
    weights["classifier.bias"] = weights["classifier.bias"] + 1
    save_file(weights, folder / "model.safetensors")
    other = duo.model_copy(update={"path": str(folder)})
    models = {**finished.recipe.models, "duo": other}
    changed = replace(finished, recipe=finished.recipe.model_copy(update={"models": models}))
    with pytest.raises(InputError, match="duo, or the tokenizers library, is not the one"):
        fill(changed, ["test"], watcher=Watcher(), say=print)
    assert not (work / "stores" / TABLE).exists()


def test_a_choice_that_cannot_be_shown_is_refused_before_anything_is_scored(work, capsys):
    choice = ["--choose-on", "test", "--queries", "test"]
    assert run(["analyse", "tradeoff", str(work), "--fill", *choice])[0] == 2
    assert "not shown on the same one" in capsys.readouterr().err
    assert not (work / "stores" / TABLE).exists()


def test_the_command_says_what_it_scores_and_prints_the_whole_grid(work, capsys):
    assert run(["analyse", "tradeoff", str(work), "--fill", "--json"])[0] == 0
    out, err = capsys.readouterr()
    (section,) = json.loads(out)["sections"]
    assert len(section["tables"][0]["rows"]) == 18
    assert "filled@pairs.test: " in err and "pairs to score" in err
