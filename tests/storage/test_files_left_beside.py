"""What a killed process left beside a file is removed by the next one that writes the file."""

import os
import time

import pytest

from raypipe.storage.files import folder_beside, replace_file, replacing
from raypipe.storage.holder import process_label, this_process


def label(pid, start):
    """That of a process of this machine."""
    return f"process-{pid}-{start:.0f}-{process_label().rpartition('-')[2]}"


DEAD = label(this_process().pid, this_process().start_time + 1)  # this number, another process
HERE = process_label()
ELSEWHERE = "process-7-7-00000000"


def write(path, content):
    with replacing(path) as stream:
        stream.write(content)


def fill(path, content):
    with folder_beside(path):
        pass


@pytest.mark.parametrize("act", [write, replace_file, fill])
def test_what_ended_processes_left_is_removed_and_what_others_write_is_not(tmp_path, act):
    def left(name):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model").write_bytes(b"half")
        return name

    gone = left(f".x.trec.{DEAD}.0123abcd.tmp")
    kept = [f".x.trec.{HERE}.0123abcd.tmp", f".x.trec.{ELSEWHERE}.0123abcd.tmp"]
    kept += [f".y.trec.{DEAD}.0123abcd.tmp", f".x.trec.{DEAD}.tmp", ".x.trec.0123abcd.tmp"]
    kept += [f"x.trec.{DEAD}.0123abcd.tmp", f".x.trec.{DEAD}.0123abcd.tmp.mine"]
    kept = sorted(left(name) for name in kept)
    act(tmp_path / "x.trec", b"1")
    found = sorted(path.name for path in tmp_path.iterdir() if path.name != "x.trec")
    assert gone not in found and found == kept


def test_what_an_unseen_process_left_is_removed_after_a_day(tmp_path):
    path = tmp_path / f".x.{ELSEWHERE}.0123abcd.tmp"
    for hours, stands in ((23, True), (25, False)):
        path.write_bytes(b"half")
        os.utime(path, (1, time.time() - hours * 3600))
        replace_file(tmp_path / "x", b"1")  # the second time, the same bytes stand there
        assert path.exists() == stands


def test_a_rest_that_cannot_be_removed_does_no_harm(tmp_path, monkeypatch):
    rest, unlink = tmp_path / f".x.{DEAD}.0123abcd.tmp", os.unlink
    rest.write_bytes(b"half")

    def refused(path, **options):
        if path == rest:
            raise PermissionError(1, "Operation not permitted", str(path))
        unlink(path, **options)

    monkeypatch.setattr(os, "unlink", refused)
    replace_file(tmp_path / "x", b"1")
    assert (tmp_path / "x").read_bytes() == b"1" and rest.exists()
