"""Rows of equal texts are copied from the stores of the invocation before."""

import json
import shutil

import pytest
from mended_inputs import COLLECTION, written

from raypipe.driver.upkeep.gc import find_garbage
from raypipe.driver.upkeep.status import open_workspace, status
from raypipe.driver.upkeep.verify import verify
from raypipe.errors import CorruptError, IncompleteError
from raypipe.models.encoder import Encoder


def change(folder):
    """A new passage first, one less, the others' ids and texts as before: 8 of 9 texts."""
    lines = (folder / COLLECTION).read_text().splitlines(keepends=True)
    (folder / COLLECTION).write_text("".join(["p9\tkappa delta\n", *lines[:5], *lines[6:]]))


def records(stores):
    """Every record and manifest of the stores but those of the files' times, by name."""
    found = [*stores.glob("*/*/manifest.json"), *stores.glob("*/*/shards/*.json")]
    names = {path.relative_to(stores): path.read_bytes() for path in found}
    return {name: data for name, data in names.items() if name.parts[0] != "count@collection"}


def copied(summary):
    return {store: stage["copied"] for store, stage in summary["stages"].items() if stage["copied"]}


COPIED = {"tokens@encoder": 8, "embeddings": 8, "scores@mono.test": 6}
"""Of nine rows, nine rows and the two queries' three candidates each."""


@pytest.fixture(scope="module")
def built():
    """What builds from nothing leave: results and records, by what differs in the recipe."""
    return {}


@pytest.fixture
def calm(mendable, invoke, tmp_path, built):
    """Asserts that a workspace has the bytes of one that was built from nothing."""

    def check(*overrides):
        weights = (mendable / "encoder" / "model.safetensors").read_bytes()
        if (key := (*overrides, weights)) not in built:
            assert not copied(invoke(out="calm", overrides=overrides))
            built[key] = written(tmp_path / "calm"), records(tmp_path / "calm" / "stores")
        results, expected = built[key]
        assert written(tmp_path / "work") == results
        found = records(tmp_path / "work" / "stores")
        assert found.items() >= expected.items() and len(expected) > 20

    return check


def sources(tmp_path):
    return open_workspace(tmp_path / "work").sources()


def done_events(stores, store, fingerprint):
    lines = (stores / store / fingerprint / "attempts.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == "done"]


def test_a_changed_collection_is_built_by_copying_and_equals_one_from_nothing(
    mendable, invoke, tmp_path, calm
):
    assert copied(invoke()) == {} and sources(tmp_path) == {}
    change(mendable)
    summary = invoke()
    assert copied(summary) == COPIED and sources(tmp_path) == {}
    told = summary["systems"]["test"]["mono"]
    assert (told["inferences"], told["computed"], told["copied"]) == (6, 0, 6)
    line = "- mono: 6 scores copied from an older store, not computed\n"
    assert line in (tmp_path / "work" / "table.md").read_text()
    for store, num_copied in COPIED.items():
        stage = summary["stages"][store]
        events = done_events(tmp_path / "work" / "stores", store, stage["fingerprint"])
        assert sum(event["copied"] for event in events) == num_copied
        assert stage["rows"] == (6 if "scores" in store else 9)
    calm()
    assert verify(open_workspace(tmp_path / "work")) == []
    again = invoke()
    assert copied(again) == {} and again["systems"] == summary["systems"]  # everything stands


def test_rows_are_not_encoded_again(mendable, invoke, monkeypatch):
    invoke()
    change(mendable)
    asked, encode = [], Encoder.encode

    def counted(encoder, flat, offsets, **settings):
        asked.append((settings["side"], len(offsets) - 1))
        return encode(encoder, flat, offsets, **settings)

    monkeypatch.setattr(Encoder, "encode", counted)
    invoke()
    assert sum(number for side, number in asked if side == "passage") == 1


def test_reuse_can_be_switched_off(mendable, invoke, calm):
    invoke()
    change(mendable)
    assert copied(invoke(overrides=["resources.reuse=false"])) == {}
    calm()


def test_another_models_weights_copy_nothing_of_it(mendable, invoke, tiny, tmp_path, calm):
    invoke()
    change(mendable)
    other = tiny.make_tiny_bert(tmp_path / "other", seed=7)
    shutil.copy(other / "model.safetensors", mendable / "encoder" / "model.safetensors")
    found = copied(invoke())
    assert "embeddings" not in found and found["tokens@encoder"] == 8
    calm()


def test_an_unchanged_collection_is_not_copied_for_other_weights(mendable, invoke, tiny, tmp_path):
    invoke()
    other = tiny.make_tiny_bert(tmp_path / "other", seed=7)
    shutil.copy(other / "model.safetensors", mendable / "encoder" / "model.safetensors")
    assert "embeddings" not in copied(invoke())


def test_what_a_part_of_the_stages_did_not_reach_is_copied_by_the_next_invocation(
    mendable, invoke, tmp_path, calm
):
    invoke()
    change(mendable)
    first = invoke(until="embeddings")
    assert copied(first) == {name: COPIED[name] for name in ("tokens@encoder", "embeddings")}
    held = sources(tmp_path)
    assert held.keys() >= {"passages@collection", "ids@collection", "embeddings"}
    garbage = find_garbage(open_workspace(tmp_path / "work"), spared_seconds=-1).names
    kept = {f"{store}/{fingerprint}" for store, fingerprint in held.items()}
    assert not [name for name in garbage if name.rsplit("/", 1)[0] in kept]
    second = invoke()
    assert copied(second) == {"scores@mono.test": 6} and sources(tmp_path) == {}
    garbage = find_garbage(open_workspace(tmp_path / "work"), spared_seconds=-1).names
    assert {f"{name}/manifest.json" for name in kept} <= set(garbage)
    calm()


@pytest.mark.slow
def test_an_invocation_that_ended_early_is_continued_by_copying(
    mendable, invoke, tmp_path, monkeypatch, calm
):
    invoke()
    change(mendable)

    def refuse(*given, **settings):
        raise ValueError("out of memory")

    monkeypatch.setattr("raypipe.models.load.load_encoder", refuse)
    with pytest.raises(IncompleteError, match="out of memory"):
        invoke()
    monkeypatch.undo()
    held = sources(tmp_path)
    assert {"passages@collection", "tokens@encoder", "embeddings"} <= held.keys()
    assert copied(invoke()) == {
        store: COPIED[store] for store in ("embeddings", "scores@mono.test")
    }
    assert sources(tmp_path) == {}
    calm()


@pytest.mark.parametrize("store", ["ids@collection", "tokens@encoder", "embeddings"])
def test_a_damaged_source_ends_the_invocation_and_the_remedy_mends_it(
    mendable, invoke, tmp_path, store, calm
):
    invoke()
    change(mendable)
    work = open_workspace(tmp_path / "work")
    fingerprint, stores = work.refs()[store], tmp_path / "work" / "stores"
    manifest = json.loads((stores / store / fingerprint / "manifest.json").read_text())
    sha256 = manifest["body"]["records"][-1]["sha256"]
    blob = stores / "blobs" / sha256[:2] / sha256
    blob.chmod(0o644)
    blob.write_bytes(b"X" + blob.read_bytes()[1:])
    with pytest.raises(CorruptError, match=rf"{sha256}.*`raypipe verify`"):
        invoke()
    assert status(tmp_path / "work").exit_code == 3
    (damage,) = verify(work)
    assert damage.problem.startswith(f"{store}/{fingerprint}, shard 0000")
    doomed = [word.strip(",") for word in damage.remedy.split() if "/" in word]
    assert len(doomed) == 3
    for name in doomed:
        (stores / name).unlink()
    found = copied(invoke())
    assert found.keys() < COPIED.keys()
    calm()
    assert verify(work) == []


def ranked(tmp_path):
    """The first five passages of each query in the run of mono."""
    (run,) = (tmp_path / "work").glob("runs/*/mono.trec")
    lines = [line.split() for line in run.read_text().splitlines()]
    return {(query, passage) for query, _, passage, rank, *_ in lines if int(rank) <= 5}


def test_every_part_of_a_table_of_scores_is_copied_from(mendable, invoke, tmp_path, calm):
    invoke()
    deeper = ["stages.mono.k0=5"]
    scores = invoke(overrides=deeper)["stages"]["scores@mono.test"]
    assert scores["rows"] - scores["copied"] == 4
    before = ranked(tmp_path)
    change(mendable)
    summary = invoke(overrides=deeper)
    scores = summary["stages"]["scores@mono.test"]
    kept = ranked(tmp_path) & before
    assert scores["rows"] == 10 and 6 < scores["copied"] == len(kept) < 10
    calm(*deeper)
