"""A rollback beside another workspace of the same stores, which retires generations and deletes."""

import dataclasses
import json
import re
import shutil
import threading
from contextlib import redirect_stdout
from io import StringIO

import pytest
from beside import let_run

from raypipe.cli.main import run
from raypipe.storage.bucket import BucketStorage
from raypipe.storage.posix import PosixStorage

RECIPE = """
format: 1
name: nightly
collection: {{format: msmarco-v1, input: {folder}/passages.tsv}}
queries: {{test: {{file: {folder}/queries.tsv}}}}
stages: {{one: {{do: read, runs: {{test: {folder}/run.trec}}}}}}
stores: {stores}
resources: {{backend: inline}}
"""
CALLS = ("create", "replace", "read", "exists", "delete", "names")


@pytest.fixture(autouse=True)
def a_day_later(monkeypatch):
    """gc takes every file for old, and waits for no reader."""
    monkeypatch.setattr("raypipe.driver.generations.retire.GRACE_SECONDS", 0)
    for place in (PosixStorage, BucketStorage):

        def entry(storage, name, inner=place.entry):
            found = inner(storage, name)
            later = name == "gc/clock" and found is not None
            return dataclasses.replace(found, written=found.written + 2e5) if later else found

        monkeypatch.setattr(place, "entry", entry)


def nights(folder, stores):
    """Three generations of one workspace; returns its folder."""
    (folder / "queries.tsv").write_text("1\tthe zebra\n")
    (folder / "run.trec").write_text("1 Q0 a 1 9 x\n1 Q0 b 2 8 x\n")
    (folder / "recipe.yaml").write_text(RECIPE.format(folder=folder, stores=stores))
    for text in ("a lease", "of shards", "rank"):
        (folder / "passages.tsv").write_text(f"a\tthe zebra\nb\t{text}\n")
        assert reindex(folder / "work") == 0
    return folder / "work"


def reindex(work, *more):
    return run(["reindex", str(work.parent / "recipe.yaml"), "--out", str(work), *more])[0]


def rollback(work):
    return run(["rollback", str(work), "--to", "1"])[0]


def retire_and_delete(work):
    """The night of another workspace, in which nothing has changed."""
    return reindex(work.parent / "other", "--keep", "2")


class Pause:
    """Calls `meanwhile` once, before the call to a storage at which this thread is to wait."""

    def __init__(self, monkeypatch, is_it, meanwhile, place=PosixStorage):
        self.count, self.ended = 0, None
        self._is_it, self._meanwhile = is_it, meanwhile
        self._thread, self._waits = threading.current_thread(), True
        for name in CALLS:
            monkeypatch.setattr(place, name, self._paused(name, getattr(place, name)))

    def _paused(self, name, inner):
        def call(storage, *given):
            if threading.current_thread() is self._thread and self._waits:
                self.count += 1
                if self._is_it(self.count, name, *given):
                    self._waits = False
                    self.ended = self._meanwhile()
            return inner(storage, *given)

        return call


def never(count, call, name, *data):
    return False


def at_the_record(count, call, name, *data):
    return call == "create" and re.fullmatch(r"generations/nightly/\d{7}\.json", name) is not None


def at_part(part, first, last):
    """At a tenth of the calls first+1 to last."""
    return lambda count, *call: count == first + 1 + part * (last - first) // 10


def told(work, verb, *more):
    with redirect_stdout(StringIO()) as found:
        assert run([verb, str(work), *more])[0] == 0, found.getvalue()
    return found.getvalue()


def assert_whole(work, code):
    """No generation names what is gone; the newest is as the rollback's exit code says."""
    newest = json.loads(told(work, "history", "--json"))["generations"][-1]
    assert (newest["number"], newest.get("rolled_back_to")) == ((4, 1) if code == 0 else (3, None))
    told(work, "verify")


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    folder = tmp_path_factory.mktemp("three")
    work = nights(folder, folder / "stores")
    assert reindex(folder / "other") == 0
    shutil.copytree(folder, folder.parent / f"{folder.name}-copy")
    return work


@pytest.fixture
def work(three):
    """The workspace as it was made, in its own place."""
    folder = three.parent
    shutil.rmtree(folder)
    shutil.copytree(folder.parent / f"{folder.name}-copy", folder)
    return three


@pytest.fixture(scope="module")
def num_calls(three):
    """How many calls a rollback makes up to its record, and the other night to its mark and end."""
    found = []
    with pytest.MonkeyPatch.context() as patch:
        a_pause = Pause(patch, at_the_record, lambda: None)
        assert rollback(three) == 0
        found.append(a_pause.count)
    shutil.rmtree(three.parent)
    shutil.copytree(three.parent.parent / f"{three.parent.name}-copy", three.parent)
    for is_it in (lambda count, call, name, *data: name.endswith(".retired"), never):
        with pytest.MonkeyPatch.context() as patch:
            a_pause = Pause(patch, is_it, lambda: None)
            retire_and_delete(three)
            found.append(a_pause.count)
    return found


PARTS = [pytest.param(part, marks=pytest.mark.slow if part % 3 else ()) for part in range(10)]
"""Where it is paused; the first, the last and two between by default."""


@pytest.mark.parametrize("part", PARTS)
def test_a_paused_rollback_makes_nothing_current_whose_stores_go(
    work, num_calls, monkeypatch, part
):
    paused = Pause(monkeypatch, at_part(part, 0, num_calls[0]), lambda: retire_and_delete(work))
    code = rollback(work)
    assert paused.ended == 0 and code in (0, 2, 3)
    told(work, "gc", "--yes")
    assert_whole(work, code)


@pytest.mark.parametrize("part", PARTS)
def test_nor_does_a_rollback_beside_a_paused_deletion(work, num_calls, monkeypatch, part):
    codes = []
    thread = threading.Thread(target=lambda: codes.append(rollback(work)))

    # It may wait for a mark to go.
    Pause(monkeypatch, at_part(part, *num_calls[1:]), lambda: let_run(thread, monkeypatch))
    assert retire_and_delete(work) == 0
    thread.join()
    assert codes[0] in (0, 2, 3)
    assert_whole(work, codes[0])


@pytest.mark.parametrize("in_bucket", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_before_its_record_a_rollback_has_its_stores_kept(
    tmp_path, request, monkeypatch, in_bucket
):
    place = BucketStorage if in_bucket else PosixStorage
    stores = f"{request.getfixturevalue('bucket_uri')}/stores" if in_bucket else tmp_path / "stores"
    work = nights(tmp_path, stores)
    paused = Pause(monkeypatch, at_the_record, lambda: retire_and_delete(work), place)
    assert (rollback(work), paused.ended) == (0, 0)
    assert_whole(work, 0)


def test_a_rollback_and_an_invocation_in_its_workspace_refuse_each_other(work, monkeypatch, capsys):
    with pytest.MonkeyPatch.context() as patch:
        paused = Pause(patch, at_the_record, lambda: reindex(work))
        assert (rollback(work), paused.ended) == (0, 4)
    assert_whole(work, 0)
    (work.parent / "passages.tsv").write_text("a\tthe zebra\nb\ta query\n")
    paused = Pause(monkeypatch, at_the_record, lambda: rollback(work))
    assert (reindex(work), paused.ended) == (0, 4)
    assert "is working here" in capsys.readouterr().err


def test_a_rollback_that_is_late_waits_for_the_deletion_that_began_and_is_refused(
    work, monkeypatch
):
    late, begun, codes = threading.Event(), threading.Event(), []

    def waiting():
        late.set()
        begun.wait()

    def going_back():
        claims = lambda count, call, name, *data: call == "create" and ".claims/" in name  # noqa: E731
        Pause(monkeypatch, claims, waiting)
        codes.append(rollback(work))

    def resume():
        begun.set()
        let_run(thread, monkeypatch)

    thread = threading.Thread(target=going_back)
    thread.start()
    late.wait()
    deletes = lambda count, call, name, *data: call == "delete" and "/manifest" in name  # noqa: E731
    Pause(monkeypatch, deletes, resume)
    assert retire_and_delete(work) == 0
    thread.join()
    assert codes == [3]
    assert_whole(work, 3)
