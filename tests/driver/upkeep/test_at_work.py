import pytest
from ledgers import SPEC, commit, ledger

from raypipe.driver.upkeep.status import progress_of
from raypipe.storage.posix import PosixStorage


@pytest.fixture
def book(tmp_path):
    """The ledger of four shards: 30, 10, 40 and 20 rows."""
    return ledger(PosixStorage(tmp_path), [30, 10, 40, 20])


def progress(book):
    return progress_of(book.storage, "toy", SPEC.fingerprint())


def test_a_store_is_not_planned_then_incomplete_then_complete(tmp_path, book):
    other = PosixStorage(tmp_path / "other")
    assert progress_of(other, "toy", SPEC.fingerprint()) == {"state": "not planned"}
    told = {"state": "incomplete", "shards": 4, "rows": 100}
    assert progress(book) == {**told, "done": 0, "rows_done": 0}
    commit(book, book.shards[2], lambda path: path.write_bytes(b"x"))
    assert progress(book) == {**told, "done": 1, "rows_done": 40}
    for shard in book.shards:
        commit(book, shard, lambda path: path.write_bytes(b"x"))
    assert progress(book)["rows_done"] == 100
    book.publish()
    assert progress(book) == {"state": "complete"}


def test_the_time_left_is_that_of_the_pending_rows_at_the_rate_of_the_newest_commit(book):
    commit(book, book.shards[0], lambda path: path.write_bytes(b"x"))
    book.note({"event": "done", "so_far": [30, 3.0]})
    assert progress(book)["rows_per_second"] == 10 and progress(book)["seconds_left"] == 7
    commit(book, book.shards[2], lambda path: path.write_bytes(b"x"))
    book.note({"event": "done", "so_far": [70, 14.0]})
    book.note({"event": "second try"})
    told = progress(book)
    assert (told["rows_per_second"], told["seconds_left"]) == (5, 6)


@pytest.mark.parametrize(
    "event",
    [
        {"event": "done"},
        {"event": "done", "so_far": [0, 3.0]},
        {"event": "done", "so_far": [3, 0.0]},
        {"event": "done", "so_far": [3, float("nan")]},
        {"event": "done", "so_far": ["3", 1.0]},
        {"event": "done", "so_far": [-3, 1.0]},
        {"event": "failed", "so_far": [3, 1.0]},
    ],
    ids=str,
)
def test_a_log_that_tells_no_rate_leaves_the_time_open(book, event):
    book.note(event)
    assert "seconds_left" not in progress(book)
