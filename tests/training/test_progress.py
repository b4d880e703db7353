from types import SimpleNamespace

import pytest

from raypipe.storage.posix import PosixStorage
from raypipe.training.checkpoints import Reader, write_progress

TORN = [b'{"event": "problem", "rea', b"", b"\0\0\0\0", b"7", b'"problem"', b"\xff\xfe{", b"null"]


@pytest.fixture
def job(tmp_path):
    return SimpleNamespace(storage=PosixStorage(tmp_path), folder="train-toy/f")


@pytest.mark.parametrize("torn", TORN)
def test_a_torn_line_of_progress_is_passed_over(job, torn):
    reader = Reader(job)
    write_progress(job, {"step": 1})
    with (job.storage.root / job.folder / "progress.jsonl").open("ab") as log:
        log.write(torn + b"\n" + b'{"step": ')
    assert reader.new() == [{"step": 1}]
    assert reader.new() == []
    with (job.storage.root / job.folder / "progress.jsonl").open("ab") as log:
        log.write(b"2}\n")
    assert reader.new() == [{"step": 2}]
