"""Bad input, mended, and the same command again: complete, with the bytes of a calm invocation."""

import os
import shutil
from pathlib import Path

import pytest
from mended_inputs import COLLECTION, QRELS, QUERIES, RUN, appended, written

from raypipe.driver.upkeep.gc import find_garbage
from raypipe.driver.upkeep.status import open_workspace, status
from raypipe.driver.upkeep.verify import verify
from raypipe.errors import InputError, RefusedError


def emptied(path):
    path.write_bytes(b"")


DAMAGES = {
    COLLECTION: [
        appended(b"p0\tthe first id again\n"),
        appended(b"an id without a text\n"),
        appended(b"p9\t\xff\xfe\n"),
        emptied,
    ],
    QUERIES: [
        appended(b"q1\tthe first id again\n"),
        appended(b"an id without a text\n"),
        emptied,
    ],
    QRELS: [appended(b"q1 0 p1 much\n"), emptied],
    RUN: [
        appended(b"q1 Q0 nobody 6 0.1 x\n"),
        appended(b"nobody Q0 p1 1 0.1 x\n"),
        appended(b"q1 Q0 p8 6 high x\n"),
        appended(b"q1 Q0 p1 6 0.1 x\n"),
    ],
    "encoder/tokenizer.json": [Path.unlink],
    "mono/model.safetensors": [Path.unlink],
    "mono/config.json": [Path.unlink],
}
"""The ways in which each input is made bad, one after the other."""


@pytest.fixture(scope="module")
def calm():
    """What a calm invocation leaves, by path; the first test that needs it runs one."""
    return {}


@pytest.mark.fault(
    35, "empty collection, queries and qrels: exit 2; once mended, the same command completes"
)
@pytest.mark.parametrize("name", DAMAGES)
def test_bad_input_is_told_and_once_mended_the_same_command_completes(
    mendable, invoke, tmp_path, calm, name
):
    good = (mendable / name).read_bytes()
    for damage in DAMAGES[name]:
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
    if not calm:
        invoke(out="calm")
        calm |= written(tmp_path / "calm")
    assert written(tmp_path / "work") == calm


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
    summary = invoke(frozen=True)
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
    with pytest.raises(RefusedError, match=r"fused\.test: its store was deleted"):
        invoke(frozen=True)
