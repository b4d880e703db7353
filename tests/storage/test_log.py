"""Logs: what a crash left of a line is passed over, and the store of the log is still usable."""

import pytest

from raypipe.storage.ledger import Ledger, events
from raypipe.storage.posix import PosixStorage
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec

TORN = [b'{"event": "quarantined", "ro', b"\0\0\0\0", b"\xff\xfe{", b"[" * 5000, b"7" * 5000]


@pytest.mark.parametrize("torn", TORN)
def test_torn_lines_are_passed_over(torn):
    data = b'{"n": 1}\n' + torn + b'\n\n{"n": 2}\n' + torn
    assert events(data) == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize("torn", TORN)
def test_a_store_with_a_torn_line_of_attempts_is_published_with_its_reasons(tmp_path, torn):
    shard = Shard(0, 0, 3)
    book = Ledger(PosixStorage(tmp_path), "toy", StageSpec("toy", 1, {}, {}), [shard])
    (tmp_path / book.folder).mkdir(exist_ok=True, parents=True)
    (tmp_path / book.folder / "attempts.jsonl").write_bytes(torn)
    book.note({"event": "quarantined", "shard": 0, "row": 1, "reason": "not finite"})
    payload = book.storage.scratch() / "payload"
    payload.write_bytes(b"rows")
    book.commit(shard, payload, {"skipped_rows": [1]})
    assert book.publish(max_failed_rows=1).skipped_rows == (1,)
    quarantine = book.storage.read(f"{book.folder}/quarantine.parquet")
    assert b"not finite" in quarantine
