"""A small invocation through the inline backend: who is told, what is left, where it may end."""

import json
import os
import signal
import threading

import pytest
from small_invocation import RECIPE, Watching

from raypipe.config.load import load_recipe
from raypipe.driver.pipeline import Options, run_pipeline
from raypipe.driver.upkeep.status import open_workspace
from raypipe.errors import InputError, Interrupted, RefusedError
from raypipe.storage.lease import lease_state
from raypipe.storage.root import ROOT_FORMAT


def test_a_watcher_hears_of_every_shard_and_nothing_unfinished_is_left(invocable):
    folder, recipe = invocable
    watching, before = Watching(), set(threading.enumerate())  # an opened Ray's thread lives on
    summary = run_pipeline(recipe, folder / "w", Options(), watcher=watching).summary
    planned = summary["stages"]["vectors"]["shards"]["planned"]
    of_vectors = [told for told in watching.told if told[1] == "vectors"]
    assert planned > 1 and of_vectors == [
        ("began", "vectors", planned, 0),
        *(("advanced", "vectors", n + 1) for n in range(planned)),
        ("ended", "vectors", 0, False),
    ]
    stores = folder / "w" / "stores"
    assert (stores / ROOT_FORMAT).is_file()
    left = [p for name in ("tmp", "nonce") for p in (stores / name).rglob("*") if p.is_file()]
    assert left == [] and not [p for p in (folder / "w" / "tmp").rglob("*") if p.is_file()]
    storage = open_workspace(folder / "w").stores
    for store, stage in summary["stages"].items():
        assert lease_state(storage, f"{store}/{stage['fingerprint']}/lease.json").released
    started = [t for t in threading.enumerate() if t not in before]
    for thread in [t for t in started if t.name == "start backend"]:
        thread.join()
    again = Watching()
    second = run_pipeline(recipe, folder / "w", Options(), watcher=again).summary
    assert ("ended", "vectors", planned, True) in again.told
    assert {told[0] for told in again.told} == {"ended"}
    assert second["stages"]["vectors"]["seconds"] == 0.0
    rows = {name: stage["rows"] for name, stage in summary["stages"].items()}
    assert (rows["queries@dev"], rows["queries@all"]) == (2, 3)  # the judged ones; all of them
    assert rows["vectors"] == 5


@pytest.mark.fault(6, "SIGINT and SIGTERM: 0 unfinished files, leases free, the shards are kept")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_invocation_keeps_its_shards(invocable, number, code):
    folder, recipe = invocable

    def interrupt(store):
        if store == "vectors":
            os.kill(os.getpid(), number)

    watching = Watching(interrupt)
    with pytest.raises(Interrupted, match=f"{number.name}: the same command resumes"):
        run_pipeline(recipe, folder / "w", Options(), watcher=watching)
    assert [told for told in watching.told if told[1] == "vectors"][-1][:2] == (
        "advanced",
        "vectors",
    )
    held = json.loads((folder / "w" / "summary.json").read_text())
    assert (held["status"], held["exit"]) == ("failed", code)
    assert unfinished(folder / "w") == []
    assert all(lease_released(lease) for lease in (folder / "w").rglob("lease.json"))
    again = Watching()
    run_pipeline(recipe, folder / "w", Options(), watcher=again)
    (began,) = [told for told in again.told if told[:2] == ("began", "vectors")]
    (ended,) = [told for told in again.told if told[:2] == ("ended", "vectors")]
    assert began[3] == ended[2] >= 1 and ended[3] is False


def unfinished(work):
    folders = ("tmp", "stores/tmp", "stores/nonce")
    return [p for name in folders for p in (work / name).rglob("*") if p.is_file()]


def lease_released(lease):
    return json.loads(lease.read_text())["body"]["released"]


def test_a_recipe_without_stages_makes_the_collection_and_word_pieces_asked_for(invocable):
    folder, recipe = invocable
    recipe, options = recipe.model_copy(update={"stages": {}}), Options(tokens_of="tiny")
    outcome = run_pipeline(recipe, folder / "w", options, watcher=Watching())
    assert set(outcome.summary["stages"]) == {
        "count@collection", "passages@collection", "ids@collection",
        "tokens@tiny",
    }  # fmt: skip
    assert outcome.summary["systems"] == {} and outcome.table == ""
    assert not (folder / "w" / "table.md").exists()


@pytest.mark.fault(20, "a worker with another torch is refused with both versions")
def test_a_worker_of_another_version_is_refused(invocable, monkeypatch):
    folder, recipe = invocable
    monkeypatch.setattr("raypipe.cluster.worker.worker_facts", lambda: {"torch": "another"})
    with pytest.raises(InputError, match=r"vectors: a worker has torch .*another"):
        run_pipeline(recipe, folder / "w", Options(), watcher=Watching())


def test_a_collection_without_passages_is_refused(invocable):
    folder, recipe = invocable
    (folder / "passages.tsv").write_text("")
    with pytest.raises(InputError, match="expected passages, found no record|empty"):
        run_pipeline(recipe, folder / "w", Options(), watcher=Watching())


def test_a_frozen_score_stage_is_compared_by_its_own_settings_alone(invocable):
    folder, recipe = invocable
    text = RECIPE.format(
        folder=folder, model=recipe.models["tiny"].path, mono=recipe.models["mono"].path
    )
    text = text.replace(
        "resources:", "  mono: {do: score, run: dense, model: mono, k0: 1}\nresources:"
    )
    run_pipeline(load_recipe(text, source="x"), folder / "w", Options(), watcher=Watching())
    frozen = Options(frozen=True)
    run_pipeline(load_recipe(text, source="x"), folder / "w", frozen, watcher=Watching())
    changed = load_recipe(text, overrides=["stages.mono.k0=2"], source="x")
    with pytest.raises(RefusedError) as told:
        run_pipeline(changed, folder / "w", frozen, watcher=Watching())
    assert str(told.value) == (
        "--frozen: stages.mono.k0 1 -> 2; set that back, or run once without --frozen to take the "
        "change\nmono.dev: params.k0 1 -> 2\nmono.all: params.k0 1 -> 2"
    )
    for manifest in (folder / "w" / "stores").glob("dense.*/*/manifest.json"):
        manifest.unlink()  # of what has not been completed, nothing above it is compared
    ended = run_pipeline(changed, folder / "w", frozen, watcher=Watching())
    assert ended.summary["status"] == "complete"
