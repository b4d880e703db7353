import io
import re
import sys
import time
from itertools import pairwise

import pytest

from raypipe.cluster.report import Report
from raypipe.driver import progress
from raypipe.driver.execute import Completed
from raypipe.driver.progress import WORDS, to_stderr, words_of
from raypipe.names import (
    Role,
    StoreName,
    of_collection,
    of_queries,
    of_stage,
    of_training,
    tokens_of,
)
from raypipe.storage.records import Manifest, Record, Shard

NAME = of_stage("dense", "test")


def completed(reused=False, kept=0, lost=0, copied=0, seconds=2.26):
    """A store of 1,200 rows."""
    records = (Record(Shard(0, 0, 1200), "0" * 64, 0, {}),)
    manifest = Manifest("x", "f", records, (), tuple(range(lost)))
    report = Report(num_reused=kept, num_copied=copied, seconds=seconds)
    return Completed(manifest, None if reused else report)


def report(rows=0, seconds=0.0, **counts):
    """Of 900 rows, 200 of them from before."""
    return Report(
        num_planned=9,
        num_reused=2,
        num_done=rows // 100,
        num_rows=rows,
        working_seconds=seconds,
        num_rows_planned=900,
        num_rows_reused=200,
        **counts,
    )


@pytest.fixture
def noon(monkeypatch):
    """The clock that is read off stands at noon."""
    real = time.strftime
    stands = (2026, 11, 23, 12, 0, 0, 0, 327, 0)
    monkeypatch.setattr("raypipe.driver.progress.time.strftime", lambda how: real(how, stands))


def test_a_file_gets_lines_with_times_in_words_of_the_recipe(monkeypatch, noon):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    stream = io.StringIO()
    watcher = progress.TerminalWatcher(stream)
    watcher.expects(3)
    watcher.began(NAME, report())
    for seconds, rows in ((29.9, 100), (30.0, 200), (59.9, 300), (60.0, 400)):
        now[0] = 100.0 + seconds
        last = int(rows == 400)
        at = report(rows, seconds, num_lost=last, num_out_of_memory=2 * last)
        watcher.advanced(NAME, at)
    watcher.ended(NAME, completed())
    watcher.ended(NAME, completed(reused=True))
    watcher.ended(NAME, completed(seconds=1.99))
    of_scores = completed(kept=3, lost=2, copied=1100, seconds=1.26)
    watcher.ended(of_stage("mono", "dev", Role.SCORES), of_scores)
    lost = "1 worker lost, 2 workers ended for want of memory"
    assert stream.getvalue().splitlines() == [
        f"2026-11-23 12:00:00 {line}"
        for line in (
            "dense on test: 400 of 900 rows, 6.7 rows/s, 0:01:15 left",
            f"dense on test: 600 of 900 rows, 6.7 rows/s, 0:00:45 left, {lost}",
            "dense on test: 1,200 rows in 2.3 s",
            "mono on dev: scores: 1,200 rows in 1.3 s, 1,100 of them copied, "
            "3 shards kept, 2 in quarantine",
        )
    ]
    watcher.stop()


def test_before_the_first_shard_is_committed_a_line_tells_how_many_are_at_work(monkeypatch, noon):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    stream = io.StringIO()
    watcher = progress.TerminalWatcher(stream)
    watcher.began(NAME, report())
    for at_work in (1, 2, 0):
        now[0] += 60.0
        watcher.advanced(NAME, report(num_computing=at_work))
    assert [line[20:] for line in stream.getvalue().splitlines()] == [
        "dense on test: 200 of 900 rows, 1 shard at work",
        "dense on test: 200 of 900 rows, 2 shards at work",
        "dense on test: 200 of 900 rows",
    ]


def test_a_slow_rate_keeps_a_digit():
    assert progress._done(report(100, 40.0)) == "300 of 900 rows, 2.5 rows/s, 0:04:00 left"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    return Terminal()


def test_a_terminal_gets_one_display_over_all_stages_that_goes_away(terminal):
    watcher = progress.TerminalWatcher(terminal)
    watcher.expects(3)
    watcher.began(NAME, report())
    display = watcher._display
    every, stage = display.tasks
    assert display.live.is_started and display.live.transient
    assert (every.description, every.total, every.completed) == ("all stages", 3, 0)
    assert (stage.description, stage.total, stage.completed) == ("dense on test", 900, 200)
    assert stage.fields["told"] == "200 of 900 rows"
    watcher.advanced(NAME, report(400, 20.0))
    assert stage.completed == 600 and stage.fields["told"].endswith("20 rows/s, 0:00:15 left")
    watcher.ended(NAME, completed())
    assert watcher._display is display and display.live.is_started, "one for all stages"
    assert [task.description for task in display.tasks] == ["all stages"]
    assert every.completed == 1 and every.fields["told"] == "1 of 3 complete"
    watcher.began(of_stage("again", "test"), report())
    assert [task.description for task in display.tasks] == ["all stages", "again on test"]
    watcher.stop()
    assert watcher._display is None and not display.live.is_started
    assert "dense on test: 1,200 rows in 2.3 s" in terminal.getvalue()


def test_more_stages_than_foreseen_are_counted(terminal):
    watcher = progress.TerminalWatcher(terminal)
    watcher.expects(1)
    watcher.began(NAME, report())
    for _ in range(2):
        watcher.ended(NAME, completed())
    (every,) = watcher._display.tasks
    assert every.fields["told"] == "2 of 2 complete"
    watcher.stop()


def test_a_display_without_a_forecast_counts_what_is_complete(terminal):
    watcher = progress.TerminalWatcher(terminal)
    watcher.ended(NAME, completed(reused=True))
    watcher.began(NAME, report())
    assert watcher._display.tasks[0].fields["told"] == "1 complete"
    watcher.stop()


def test_a_with_block_removes_the_display_also_after_an_error(terminal):
    with pytest.raises(ValueError, match="ended"), progress.TerminalWatcher(terminal) as watcher:
        watcher.began(NAME, report())
        shown = watcher._display
        assert shown.live.is_started
        raise ValueError("ended")
    assert not shown.live.is_started


def test_a_terminal_whose_cursor_does_not_move_gets_lines(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    stream = Terminal()
    with progress.TerminalWatcher(stream) as watcher:
        watcher.expects(1)
        watcher.began(NAME, report())
        watcher.ended(NAME, completed())
    assert stream.getvalue().splitlines() == ["dense on test: 1,200 rows in 2.3 s"]


@pytest.mark.parametrize(
    "name, words",
    [
        (of_stage("dense", "test"), "dense on test"),
        (of_stage("dense", "test", Role.PARTS), "dense on test: in parts"),
        (of_stage("embeddings"), "embeddings"),
        (of_stage("bm25", role=Role.TUNE), "bm25: tuning"),
        (of_collection(Role.IDS), "collection: ids and hashes of the texts"),
        (of_queries("dev"), "dev: queries"),
        (tokens_of("minilm"), "minilm: word pieces"),
        (of_stage("mono", "dev", Role.SCORES), "mono on dev: scores"),
        (of_training(Role.WEIGHTS, "cip", "first"), "cip, phase first: weights"),
    ],
    ids=str,
)
def test_a_store_is_named_in_words_of_the_recipe(name, words):
    assert words_of(name) == words


def test_every_role_has_words_and_no_two_stores_of_one_owner_the_same():
    assert set(WORDS) == set(Role)
    names = sorted(words_of(StoreName(role, "x", "dev", n)) for role in Role for n in (1, 2))
    assert all(one != other for one, other in pairwise(names))


def test_a_line_has_a_time_stamp_where_stderr_is_no_terminal(capsys):
    to_stderr("x")
    out, error = capsys.readouterr()
    assert out == "" and re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d x\n", error)


def test_a_line_on_a_terminal_stands_as_it_is(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    to_stderr("x")
    assert sys.stderr.getvalue() == "x\n"
