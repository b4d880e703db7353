"""Lucene's documents are the passages of their rows, however often its buffer is full."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from long_collection import (
    EMPTY_EVERY,
    FILLED,
    NUM_PASSAGES,
    TWIN_EVERY,
    all_passages,
    id_of,
)

from raypipe import schema
from raypipe.engines.lucene.index import ROWS_FILE, build_index
from raypipe.engines.lucene.java import open_reader, start_jvm, stored_ids
from raypipe.engines.lucene.search import LuceneSearcher
from raypipe.errors import IncompleteError

pytestmark = [pytest.mark.jvm, pytest.mark.slow]


@pytest.fixture(scope="session")
def searcher(long_index):
    return LuceneSearcher(long_index)


def test_every_document_is_the_passage_of_its_row(searcher, long_index):
    lucene = start_jvm()
    reader = open_reader(lucene, str(long_index))
    assert reader.leaves().size() == 1
    assert reader.maxDoc() == len(FILLED)
    assert searcher.rows.tolist() == FILLED
    assert searcher.rows.dtype == np.int64
    assert stored_ids(lucene, reader, range(len(FILLED))) == [id_of(row) for row in FILLED]


def test_a_word_of_one_passage_finds_its_row(searcher):
    for row in FILLED[:: len(FILLED) // 50]:
        if row % TWIN_EVERY:
            rows, _ = searcher.search(f"own{row}", k1=0.9, b=0.4, depth=10)
            assert rows.tolist() == [row]


@pytest.mark.parametrize("depth", [1, 7, 39, 1000])
def test_equal_texts_are_found_by_row_at_the_cut_too(searcher, depth):
    twins = [row for row in range(0, NUM_PASSAGES, TWIN_EVERY) if row % EMPTY_EVERY != 5]
    rows, scores = searcher.search("zebra", k1=0.9, b=0.4, depth=depth)
    assert rows.tolist() == twins[:depth]
    assert len(set(scores.tolist())) == 1


def test_bytes_know_neither_the_time_nor_how_often_the_buffer_was_full(long_index, tmp_path):
    again = tmp_path / "index"
    build_index(all_passages, again, buffer_megabytes=64)
    assert sorted(p.name for p in again.iterdir()) == sorted(p.name for p in long_index.iterdir())
    assert [
        p for p in long_index.iterdir() if p.read_bytes() != (again / p.name).read_bytes()
    ] == []
    assert list(tmp_path.iterdir()) == [again]


def test_a_document_that_is_not_the_passage_of_its_row_is_refused_by_the_build(tmp_path):
    names = iter(["ab", "cd"])

    def other_names_at_second_reading():
        return [pa.table([list(next(names)), ["horse", "zebra"]], schema=schema.PASSAGES)]

    with pytest.raises(IncompleteError, match=r"document 0: expected passage 'c' of row 0.*'a'"):
        build_index(other_names_at_second_reading, tmp_path / "index")
    assert not (tmp_path / "index" / ROWS_FILE).exists()


def test_a_failure_of_lucene_is_told_with_its_last_words(tmp_path):
    one = [pa.table([["a"], ["horse"]], schema=schema.PASSAGES)]
    with pytest.raises(IncompleteError, match=r"(?s)Lucene: indexing ended with 1: .*no number"):
        build_index(lambda: one, tmp_path / "index", buffer_megabytes="no number")
    assert not (tmp_path / "index" / ROWS_FILE).exists()


BUILD = """
import pathlib, pyarrow as pa
from raypipe import schema
from raypipe.engines.lucene.index import build_index
one = pa.table([["a"], ["horse"]], schema=schema.PASSAGES)
build_index(lambda: [one], pathlib.Path("index"))
"""


def test_a_killed_worker_leaves_no_lucene_behind(tmp_path):
    """Lucene's process is stopped before its worker is killed, so it cannot end by itself."""
    worker = subprocess.Popen([sys.executable, "-c", BUILD], cwd=tmp_path)
    children = Path(f"/proc/{worker.pid}/task/{worker.pid}/children")
    own = []
    while not own:
        assert worker.poll() is None, "it ended before Lucene was seen"
        own = [
            int(pid) for pid in children.read_text().split() if b"lucene.build" in command_of(pid)
        ]
    os.kill(own[0], signal.SIGSTOP)
    worker.kill()
    worker.wait()
    try:
        for _ in range(600):
            if state_of(own[0]) in ("", "Z"):
                return
            time.sleep(0.05)
        pytest.fail("Lucene's process is still there")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(own[0], signal.SIGKILL)


def command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def state_of(pid):
    """The letter of a process's state; empty if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
