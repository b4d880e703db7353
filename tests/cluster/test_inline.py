import errno
import json
import os
from dataclasses import replace

import pytest
from numbers_stage import SHARDS

from raypipe.cluster.backend import Done, Failed, Mode, Ready
from raypipe.cluster.loop import Loop
from raypipe.cluster.report import Limits
from raypipe.cluster.worker import InlineBackend
from raypipe.errors import IncompleteError, ending_of
from raypipe.stages.stage import Needs
from raypipe.storage.posix import PosixStorage


def test_one_worker_after_the_other_computes_when_it_is_waited_for(work):
    backend = InlineBackend()
    assert (backend.capacity(Needs()), backend.wait(9.0)) == (1, [])
    assert backend.start(work) == 1
    (ready,) = backend.wait(0.0)
    assert isinstance(ready, Ready) and (ready.worker, ready.process) == (1, None)
    assert ready.facts["numerics"] == "toy"
    site = work.stage.site
    assert (site.device, site.threads) == ("cpu", 1) and site.scratch.is_dir()
    backend.submit(1, SHARDS[0], (2,), Mode.PLAIN)
    backend.submit(1, SHARDS[1], (), Mode.PROBE)
    assert work.ledger.pending() == SHARDS, "nothing is computed before it is waited for"
    (done,), (probe,) = backend.wait(1.0), backend.wait(1.0)
    assert isinstance(done, Done) and (done.worker, done.shard) == (1, SHARDS[0])
    assert done.committed.record.facts["skipped_rows"] == [2] and 0 <= done.seconds < 60
    assert isinstance(probe, Done) and probe.committed is None and probe.shard == SHARDS[1]
    assert backend.wait(0.0) == []
    backend.kill(1)
    assert not site.scratch.exists()
    assert backend.start(work) == 2
    assert backend.wait(0.0)[0].worker == 2
    second = work.stage.site.scratch
    assert second.is_dir() and second != site.scratch
    backend.close()
    assert not second.exists()
    before = backend.now()
    assert before <= backend.now() < before + 60
    InlineBackend().close()


def test_of_a_worker_that_is_ended_no_event_follows(work):
    backend = InlineBackend()
    backend.start(work)
    backend.kill(1)
    assert backend.wait(0.0) == [] and not hasattr(work.stage, "site"), "nothing is opened"
    backend.start(work)
    (ready,) = backend.wait(0.0)
    assert ready.worker == 2
    backend.submit(2, SHARDS[0], (), Mode.PLAIN)
    backend.kill(2)
    assert backend.wait(0.0) == [] and work.ledger.pending() == SHARDS


def test_what_a_stage_raises_becomes_an_event(work):
    backend = InlineBackend(device="cuda", threads=7)
    backend.start(work)
    backend.wait(0.0)
    assert (work.stage.site.device, work.stage.site.threads) == ("cuda", 7)
    work.stage.fault = error = ValueError("x")
    backend.submit(1, SHARDS[1], (), Mode.PLAIN)
    assert backend.wait(0.0) == [Failed(1, SHARDS[1], error)]
    assert backend.start(work) == 2
    assert backend.wait(0.0) == [Failed(2, None, error)]


def test_what_a_stage_holds_open_is_closed_once_before_its_files_go(work, monkeypatch):
    seen, whole = [], type(work.stage).open

    def closing(stage, site):
        return replace(whole(stage, site), close=lambda: seen.append(site.scratch.exists()))

    monkeypatch.setattr(type(work.stage), "open", closing)
    backend = InlineBackend()
    backend.start(work)
    backend.wait(0.0)
    backend.release(1)
    backend.close()
    assert seen == [True]


KINDS = [errno.EIO, errno.EROFS, errno.EACCES, errno.ENOSPC, errno.ESTALE, errno.ETIMEDOUT]


def failing(monkeypatch, call, number, times):
    """The first calls fail; how many did."""
    real, failed = getattr(PosixStorage, call), []

    def tried(storage, name, *given):
        if len(failed) < times:
            failed.append(name)
            raise OSError(number, os.strerror(number), f"{storage.root}/{name}")
        return real(storage, name, *given)

    monkeypatch.setattr(PosixStorage, call, tried)
    return failed


@pytest.mark.fault(9, "6 errors, in payload or record, 2 times in a row: tried again, and complete")
@pytest.mark.parametrize("call", ["put", "create"])
@pytest.mark.parametrize("number", KINDS, ids=errno.errorcode.get)
def test_a_shard_that_cannot_be_written_is_tried_again(work, monkeypatch, call, number):
    failed = failing(monkeypatch, call, number, 2)
    report = Loop(work, InlineBackend(), Limits()).run()
    assert (len(failed), report.num_done) == (2, 2)
    work.ledger.publish()
    log = (work.ledger.storage.root / work.ledger.folder / "attempts.jsonl").read_text()
    told = [json.loads(line) for line in log.splitlines()]
    reasons = [event["reason"] for event in told if event["event"] == "failed"]
    assert len(reasons) == 2 and all(os.strerror(number) in reason for reason in reasons)


@pytest.mark.fault(9, "and 3 times: the end with shard, path and the system's words; no record")
@pytest.mark.fault(8, "a payload or record that never fits: exit 3 after 3 tries, no final name")
@pytest.mark.parametrize("call", ["put", "create"])
@pytest.mark.parametrize("number", KINDS, ids=errno.errorcode.get)
def test_storage_that_keeps_failing_ends_the_invocation(work, monkeypatch, call, number):
    failed = failing(monkeypatch, call, number, 99)
    with pytest.raises(IncompleteError, match=r"shard 00000 rows \[0, 4\) failed 3 times") as told:
        Loop(work, InlineBackend(), Limits()).run()
    assert len(failed) == 3 and ending_of(told.value).exit_code == 3
    assert os.strerror(number) in str(told.value) and failed[0] in str(told.value)
    assert work.ledger.pending() == list(work.ledger.shards) and work.ledger.manifest() is None
    assert list(work.ledger.storage.names("tmp")) == []
