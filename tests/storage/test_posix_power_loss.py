"""Power is lost at any moment: what was said to be done is there, and nothing else need be."""

import pytest
from lost_power import noting_disk

from raypipe.driver.invocation import invocation
from raypipe.driver.summaries import read_results
from raypipe.driver.workspace import Workspace
from raypipe.storage.files import replace_file
from raypipe.storage.generations import Generation, create_generation, newest_generation
from raypipe.storage.ledger import Ledger, read_manifest
from raypipe.storage.posix import PosixStorage
from raypipe.storage.records import Shard, digest
from raypipe.storage.spec import StageSpec


@pytest.fixture
def disk(tmp_path, monkeypatch):
    return noting_disk(tmp_path / "disk", monkeypatch)


SHARDS = [Shard(0, 0, 2), Shard(1, 2, 4)]


def commit(ledger, number):
    path = ledger.storage.scratch() / "payload"
    path.write_text(f"rows of {number}")
    return ledger.commit(ledger.shards[number], path, {"rows": 2})


@pytest.mark.fault(
    7, "every committed shard and published manifest is there after the power is back"
)
def test_committed_shards_and_published_stores_survive(disk, tmp_path):
    spec = StageSpec("toy", 1)
    ledger = Ledger(PosixStorage(disk.root / "deep" / "stores"), "toy", spec, SHARDS)
    record = commit(ledger, 1)
    after = PosixStorage(disk.survivors(tmp_path / "first") / "deep" / "stores")
    resumed = Ledger(after, "toy", spec)
    assert resumed.pending() == [SHARDS[0]] and resumed.record(SHARDS[1]) == record
    after.check(record.sha256)
    commit(ledger, 0)
    manifest = ledger.publish()
    after = PosixStorage(disk.survivors(tmp_path / "second") / "deep" / "stores")
    assert read_manifest(after, "toy", spec.fingerprint()) == manifest
    for each in manifest.records:
        after.check(each.sha256)


@pytest.mark.fault(7, "and so are identity, refs, summary and generation")
def test_workspaces_refs_summaries_and_generations_survive(disk, tmp_path):
    work = Workspace(disk.root / "a" / "work")
    work.mark()
    work.refer("toy", "f1")
    work.write_summary({"status": "complete"})
    create_generation(work.stores, Generation("nightly", 1, {"toy": "f1"}))
    work.refer("toy", "f2")
    after = Workspace(disk.survivors(tmp_path / "after") / "a" / "work")
    assert after.id == work.id and after.refs() == {"toy": "f2"}
    assert after.read_summary() == {"status": "complete"}
    assert newest_generation(after.stores, "nightly").stores == {"toy": "f1"}


@pytest.mark.fault(7, "results are gone before a file that they name is written over")
def test_results_are_gone_for_good_before_their_files_are_written_over(disk, tmp_path):
    def ends(work, run):
        with invocation(work, "toy") as summary:
            work.work_begins()
            replace_file(work.folder / "runs/one.trec", run)
            work.wrote(work.folder / "runs/one.trec")
            summary["systems"] = {}
            yield

    def survivors(name):
        folder = disk.survivors(tmp_path / name) / "work"
        return (folder / "runs/one.trec").read_bytes(), read_results(folder)

    work = Workspace(disk.root / "work")
    for text in (b"old", b"new"):
        for _ in ends(work, text):
            assert survivors(f"at work on {text}") == (text, None)
        run, results = survivors(f"after {text}")
        assert run == text and results["files"] == {"runs/one.trec": digest(text)}


@pytest.mark.fault(7, "a disk that was told nothing keeps nothing: the test itself would notice")
def test_a_disk_that_was_told_nothing_keeps_nothing(disk, tmp_path):
    (disk.root / "file").write_text("x")
    assert list(disk.survivors(tmp_path / "after").iterdir()) == []
