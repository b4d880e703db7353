"""Bad input, mended, and the same command again: complete, with the bytes of a calm invocation."""

import json
import os
import shutil

import pytest
from watchers import Silent

from raypipe.config import load_recipe
from raypipe.driver.pipeline import Options, run_pipeline
from raypipe.driver.upkeep.gc import find_garbage
from raypipe.driver.upkeep.status import open_workspace, status
from raypipe.driver.upkeep.verify import verify
from raypipe.errors import CorruptError, InputError, RefusedError

COLLECTION, QUERIES, QRELS, RUN = "passages.tsv", "queries.tsv", "qrels.txt", "run.trec"


@pytest.fixture
def mendable(tmp_path, tiny_model, tiny_mono):
    """A folder with every input of the pipeline below."""
    folder = tmp_path / "files"
    folder.mkdir()
    words = "alpha beta gamma delta epsilon zeta eta theta".split()
    texts = [" ".join(words[(i + j) % len(words)] for j in range(2 + i)) for i in range(9)]
    (folder / COLLECTION).write_text("".join(f"p{i}\t{t}\n" for i, t in enumerate(texts)))
    (folder / QUERIES).write_text("q1\tbeta gamma\nq2\ttheta\n")
    (folder / QRELS).write_text("q1 0 p1 1\nq2 0 p7 2\n")
    lines = [f"{q} Q0 p{row} {row + 1} {9 - row} x\n" for q in ("q1", "q2") for row in range(5)]
    (folder / RUN).write_text("".join(lines))
    shutil.copytree(tiny_model, folder / "encoder")
    shutil.copytree(tiny_mono, folder / "mono")
    return folder


@pytest.fixture
def invoke(mendable, tmp_path):
    def go(out="work", **overrides):
        recipe = {
            "format": 1,
            "name": "mended",
            "collection": {"format": "msmarco-v1", "input": str(mendable / COLLECTION)},
            "queries": {"test": {"file": str(mendable / QUERIES), "qrels": str(mendable / QRELS)}},
            "models": {
                "encoder": {"path": str(mendable / "encoder")},
                "mono": {"path": str(mendable / "mono")},
            },
            "stages": {
                "embeddings": {"do": "encode", "model": "encoder"},
                "dense": {"do": "search", "index": "embeddings", "depth": 5},
                "given": {"do": "read", "runs": {"test": str(mendable / RUN)}},
                "fused": {"do": "fuse", "runs": ["dense", "given"], "method": "rrf"},
                "mono": {"do": "score", "run": "fused", "model": "mono", "k0": 3},
            },
            "evaluate": {"measures": ["nDCG@10"]},
            "resources": {"backend": "inline", "device": "cpu"},
            **overrides.pop("more", {}),
        }
        options = overrides.pop("options", Options())
        checked = load_recipe(recipe, source="mended", **overrides)
        return run_pipeline(checked, tmp_path / out, options, watcher=Silent()).summary

    return go


def written(folder):
    """What an invocation leaves for its user, by path."""
    kept = [*folder.glob("runs/*/*"), *folder.glob("measures/*"), folder / "table.md"]
    return {path.relative_to(folder): path.read_bytes() for path in kept if path.suffix != ".md"}


def appended(text):
    return lambda path: path.write_bytes(path.read_bytes() + text)


DAMAGES = [
    (COLLECTION, appended(b"p0\tthe first id again\n")),
    (COLLECTION, appended(b"an id without a text\n")),
    (COLLECTION, appended(b"p9\t\xff\xfe\n")),
    (COLLECTION, lambda path: path.write_bytes(b"")),
    (QUERIES, appended(b"q1\tthe first id again\n")),
    (QUERIES, appended(b"an id without a text\n")),
    (QUERIES, lambda path: path.write_bytes(b"")),
    (QRELS, appended(b"q1 0 p1 much\n")),
    (QRELS, lambda path: path.write_bytes(b"")),
    (RUN, appended(b"q1 Q0 nobody 6 0.1 x\n")),
    (RUN, appended(b"nobody Q0 p1 1 0.1 x\n")),
    (RUN, appended(b"q1 Q0 p8 6 high x\n")),
    (RUN, appended(b"q1 Q0 p1 6 0.1 x\n")),
    ("encoder/tokenizer.json", lambda path: path.unlink()),
    ("mono/model.safetensors", lambda path: path.unlink()),
    ("mono/config.json", lambda path: path.unlink()),
]
IDS = [f"{name}-{number}" for number, (name, _) in enumerate(DAMAGES)]


@pytest.mark.parametrize(("name", "damage"), DAMAGES, ids=IDS)
def test_bad_input_is_told_and_once_mended_the_same_command_completes(
    mendable, invoke, tmp_path, name, damage
):
    good = (mendable / name).read_bytes()
    damage(mendable / name)
    for _ in range(2):
        with pytest.raises(InputError):
            invoke()
    if (tmp_path / "work").exists():
        assert status(tmp_path / "work").exit_code == 2
    (mendable / name).write_bytes(good)
    invoke()
    assert status(tmp_path / "work").exit_code == 0
    assert verify(open_workspace(tmp_path / "work")) == []
    invoke(out="calm")
    assert written(tmp_path / "work") == written(tmp_path / "calm")


@pytest.mark.parametrize("name", [COLLECTION, QUERIES, QRELS, RUN])
def test_a_complete_workspace_whose_input_was_bad_for_a_while_is_reused(
    mendable, invoke, tmp_path, name
):
    invoke()
    before, good = written(tmp_path / "work"), (mendable / name).read_bytes()
    stamp = (mendable / name).stat()
    appended(b"an id without a text or else a line too much\n")(mendable / name)
    with pytest.raises(InputError):
        invoke()
    (mendable / name).write_bytes(good)
    os.utime(mendable / name, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    summary = invoke(options=Options(frozen=True))
    again = {store for store, stage in summary["stages"].items() if not stage["reused"]}
    assert again <= {"count@collection"}, "a file that was written is read once more"
    assert written(tmp_path / "work") == before


def test_bad_queries_leave_nothing_behind_in_the_stores(mendable, invoke, tmp_path):
    appended(b"q1\tthe first id again\n")(mendable / QUERIES)
    with pytest.raises(InputError):
        invoke()
    assert not list((tmp_path / "work" / "stores").glob("queries@*"))
    garbage = find_garbage(open_workspace(tmp_path / "work"), spared_seconds=-1)
    assert garbage.strangers == []


def test_a_deleted_store_is_computed_again_even_with_another_setting(invoke, tmp_path):
    invoke()
    shutil.rmtree(tmp_path / "work" / "stores" / "fused.test")
    invoke(overrides=["stages.fused.k=10"])
    invoke(out="calm", overrides=["stages.fused.k=10"])
    assert written(tmp_path / "work") == written(tmp_path / "calm")


def test_frozen_refuses_where_a_store_it_must_compare_with_is_gone(invoke, tmp_path):
    invoke()
    shutil.rmtree(tmp_path / "work" / "stores" / "fused.test")
    with pytest.raises(RefusedError, match=r"fused\.test: its store is gone"):
        invoke(options=Options(frozen=True))


def test_an_input_that_changes_while_it_is_read_is_refused(mendable, invoke, tmp_path, monkeypatch):
    from raypipe.stages.read_run import ReadRunStage

    run = ReadRunStage.run

    def changing(self, shard, skip, beat):
        payload = run(self, shard, skip, beat)
        appended(b"q1 Q0 p8 6 0.5 x\n")(mendable / RUN)
        return payload

    monkeypatch.setattr(ReadRunStage, "run", changing)
    with pytest.raises(InputError, match=r"given\.test: .*inputs\.content:run"):
        invoke()
    monkeypatch.undo()
    invoke()
    assert (tmp_path / "work/runs/test/given.trec").read_text().count("q1 ") == 6


def test_a_file_that_changes_before_its_rows_are_planned_plans_nothing(
    mendable, invoke, tmp_path, monkeypatch
):
    """Else its old name would stand over the new file's plan, and the old file lose queries."""
    from raypipe.stages.texts.queries import QueriesStage

    before, shards = (mendable / QUERIES).read_bytes(), QueriesStage.shards

    def changing(self, sizing):
        appended(b"q9\tone more\n")(mendable / QUERIES)
        return shards(self, sizing)

    monkeypatch.setattr(QueriesStage, "shards", changing)
    with pytest.raises(InputError, match=r"queries@test: an input changed while .*were planned"):
        invoke()
    assert not list((tmp_path / "work").rglob("queries@test/*/plan.json"))
    monkeypatch.undo()
    (mendable / QUERIES).write_bytes(before)
    invoke()


def test_another_formats_workspace_and_stores_are_refused_and_untouched(invoke, tmp_path):
    from raypipe.storage.records import seal, unseal

    invoke(more={"stores": str(tmp_path / "stores")})
    for file in (tmp_path / "work").glob("workspace.json"):
        body = unseal("x", file.read_bytes())
        file.write_bytes(seal({**body, "format": 1}))
    with pytest.raises(InputError, match=r"workspace\.json: expected .* format 2, found format 1"):
        invoke(more={"stores": str(tmp_path / "stores")})
    (ref,) = (tmp_path / "stores" / "refs").glob("*.json")
    ref.write_bytes(seal({**unseal("x", ref.read_bytes()), "format": 1}))
    (tmp_path / "stores" / "format.json").unlink()
    before = sorted((tmp_path / "stores").rglob("*"))
    with pytest.raises(InputError, match=r"refs/\w+\.json: expected .* format 2, found format 1"):
        invoke(out="other", more={"stores": str(tmp_path / "stores")})
    assert sorted((tmp_path / "stores").rglob("*")) == before
    assert (
        not (tmp_path / "other" / "summary.json").exists()
        or json.loads((tmp_path / "other" / "summary.json").read_text())["exit"] == 2
    )


def test_a_collection_rewritten_while_it_is_read_is_refused(
    mendable, invoke, tmp_path, monkeypatch
):
    from raypipe.stages.texts.prepare import ConvertStage

    good = (mendable / COLLECTION).read_bytes()
    opened = ConvertStage.open

    def changing(self, site):
        (mendable / COLLECTION).write_bytes(good.replace(b"beta", b"rank", 1))
        return opened(self, site)

    monkeypatch.setattr(ConvertStage, "open", changing)
    with pytest.raises(CorruptError, match=r"passages\.tsv: not the file that was counted"):
        invoke()
    monkeypatch.undo()
    (mendable / COLLECTION).write_bytes(good)
    invoke()
    invoke(out="calm")
    assert written(tmp_path / "work") == written(tmp_path / "calm")


def test_another_collection_of_the_same_name_size_and_date_is_read(mendable, invoke, tmp_path):
    stat = (mendable / COLLECTION).stat()
    invoke()
    text = (mendable / COLLECTION).read_text().replace("beta", "rank")
    other = tmp_path / "other" / COLLECTION
    other.parent.mkdir()
    other.write_text(text)
    os.utime(other, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    summary = invoke(overrides=[f"collection.input={other}"])
    assert not summary["stages"]["passages@collection"]["reused"]
    (mendable / COLLECTION).write_text(text)
    os.utime(mendable / COLLECTION, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    summary = invoke()
    assert summary["stages"]["passages@collection"]["reused"], "the same bytes as the other's"
    assert not summary["stages"]["count@collection"]["reused"]
