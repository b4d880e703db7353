import json
import os

import pytest
from mended_inputs import COLLECTION, QUERIES, RUN, appended, written

from raypipe.errors import CorruptError, InputError, RefusedError


def test_an_input_that_changes_while_it_is_read_is_refused(mendable, invoke, tmp_path, monkeypatch):
    from raypipe.stages import read_run

    read = read_run.read_parts

    def changing(*arguments, **settings):
        yield from read(*arguments, **settings)
        appended(b"q1 Q0 p8 6 0.5 x\n")(mendable / RUN)

    monkeypatch.setattr(read_run, "read_parts", changing)
    with pytest.raises(InputError, match=r"given\.test: .*inputs\.content:run"):
        invoke()
    monkeypatch.undo()
    invoke()
    assert (tmp_path / "work/runs/test/given.trec").read_text().count("q1 ") == 6


def test_a_file_that_changes_before_its_rows_are_planned_plans_nothing(
    mendable, invoke, tmp_path, monkeypatch
):
    """Else its old name would stand over the new file's plan, and the old file lose queries."""
    from raypipe.stages.prepare import QueriesStage

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
        file.write_bytes(seal({**body, "format": 3}))
    with pytest.raises(InputError, match=r"workspace\.json: expected .* format 6, found format 3"):
        invoke(more={"stores": str(tmp_path / "stores")})
    (ref,) = (tmp_path / "stores" / "refs").glob("*.json")
    ref.write_bytes(seal({**unseal("x", ref.read_bytes()), "format": 3}))
    (tmp_path / "stores" / "format.json").unlink()
    before = sorted((tmp_path / "stores").rglob("*"))
    with pytest.raises(InputError, match=r"refs/\w+\.json: expected .* format 6, found format 3"):
        invoke(out="other", more={"stores": str(tmp_path / "stores")})
    assert sorted((tmp_path / "stores").rglob("*")) == before
    assert (
        not (tmp_path / "other" / "summary.json").exists()
        or json.loads((tmp_path / "other" / "summary.json").read_text())["exit"] == 2
    )


def test_a_collection_rewritten_while_it_is_read_is_refused(
    mendable, invoke, tmp_path, monkeypatch
):
    from raypipe.stages.prepare import ConvertStage

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


def test_a_renamed_collection_file_and_one_more_pass_frozen(mendable, invoke):
    def collected(*names):
        files = [str(mendable / name) for name in names]
        return {"collection": {"format": "msmarco-v1", "input": files}}

    (mendable / COLLECTION).rename(mendable / "2026-11-21.tsv")
    invoke(more=collected("2026-11-21.tsv"))
    (mendable / "2026-11-21.tsv").rename(mendable / "2026-11-22.tsv")
    again = invoke(more=collected("2026-11-22.tsv"), frozen=True)["stages"]
    assert again["passages@collection"]["reused"] and again["mono.test"]["reused"]
    (mendable / "more.tsv").write_text("p9\tkappa\n")
    more = invoke(more=collected("2026-11-22.tsv", "more.tsv"), frozen=True)["stages"]
    assert (more["embeddings"]["rows"], more["embeddings"]["copied"]) == (10, 9)
    fewer = invoke(more=collected("2026-11-22.tsv"), frozen=True)["stages"]
    assert fewer["embeddings"]["rows"] == 9
    with pytest.raises(RefusedError, match=r"passages@collection: params\.errors"):
        invoke(
            more=collected("2026-11-22.tsv"),
            frozen=True,
            overrides=["collection.errors=replace"],
        )
