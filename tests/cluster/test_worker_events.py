"""Logs that no hash covers: a line that a crash tore is passed over, the others are read."""

from types import SimpleNamespace

import pytest

from raypipe.cluster.ray_train import events, note_problem, note_worker
from raypipe.storage.holder import this_process
from raypipe.storage.posix import PosixStorage
from raypipe.training.checkpoints import Reader

TORN = [b'{"event": "problem", "rea', b"", b"\0\0\0\0", b"7", b'"problem"', b"\xff\xfe{", b"null"]


@pytest.fixture
def job(tmp_path):
    return SimpleNamespace(storage=PosixStorage(tmp_path), folder="train-toy/f")


def test_without_a_log_nothing_was_told(job):
    assert events(job) == [] and Reader(job).new() == []


def test_what_workers_tell_is_read_in_order(job):
    note_worker(job)
    note_problem(job, "a reason")
    worker, problem = events(job)
    assert worker == {"event": "worker", "process": this_process().to_json()}
    assert problem == {"event": "problem", "reason": "a reason"}


@pytest.mark.parametrize("torn", TORN)
def test_a_torn_line_of_attempts_is_passed_over(job, torn):
    note_problem(job, "before")
    with (job.storage.root / job.folder / "attempts.jsonl").open("ab") as log:
        log.write(torn + b"\n")
    note_problem(job, "after")
    assert [event["reason"] for event in events(job)] == ["before", "after"]


def test_a_last_line_without_an_end_hides_only_itself(job):
    note_problem(job, "before")
    with (job.storage.root / job.folder / "attempts.jsonl").open("ab") as log:
        log.write(TORN[0])
    assert [event["reason"] for event in events(job)] == ["before"]
    note_problem(job, "next to the torn one")
    note_problem(job, "after")
    assert [e["reason"] for e in events(job)] == ["before", "next to the torn one", "after"]
