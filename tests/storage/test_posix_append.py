"""A line of a log stands alone and whole, whatever an earlier crash or a short write left."""

import os

import pytest

from raypipe.storage.ledger import events
from raypipe.storage.posix import PosixStorage

NAME = "toy/f/attempts.jsonl"


@pytest.mark.parametrize("torn", [b'{"event": "fai', b"\0\0\0", b"\xff\xfe{"])
def test_a_line_after_a_torn_one_stands_alone(tmp_path, torn):
    storage = PosixStorage(tmp_path)
    storage.append(NAME, b'{"n": 1}')
    with (tmp_path / NAME).open("ab") as log:
        log.write(torn)
    storage.append(NAME, b'{"n": 2}\n')
    assert events(storage.read(NAME)) == [{"n": 1}, {"n": 2}]


def test_a_short_write_is_followed_by_the_whole_line(tmp_path, monkeypatch):
    write, short = os.write, [3, 1]
    monkeypatch.setattr(
        os, "write", lambda fd, data: write(fd, data[: short.pop()] if short else data)
    )
    storage = PosixStorage(tmp_path)
    storage.append(NAME, b'{"n": 1}')
    storage.append(NAME, b'{"n": 2}')
    assert short == [] and events(storage.read(NAME)) == [{"n": 1}, {"n": 2}]


def test_a_line_that_the_disk_never_takes_whole_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "write", lambda fd, data: 1)
    with pytest.raises(OSError, match=r"attempts\.jsonl.*") as raised:
        PosixStorage(tmp_path).append(NAME, b'{"n": 1}')
    assert raised.value.errno and "written in part" in str(raised.value)
