"""Shards whose files cannot be written: tried again, and told with path and reason."""

import errno
import json
import os

import pytest

from raypipe.cluster.inline import InlineBackend
from raypipe.cluster.loop import Loop
from raypipe.cluster.report import Limits
from raypipe.errors import IncompleteError, ending_of
from raypipe.storage.posix import PosixStorage

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
