import io

from raypipe.cluster.loop import Report
from raypipe.driver.recipe.watching import StageResult
from raypipe.driver.report import progress


def result(reused=False, rows=1200, kept=0, lost=0, copied=0):
    return StageResult("x", "f", reused, rows, 9, kept, lost, 1.0, copied, 1.26, None)


def test_a_file_gets_a_line_a_stage_and_one_every_ten_seconds(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    stream = io.StringIO()
    watcher = progress.TerminalWatcher(stream)
    watcher.began("x", Report(num_planned=9, num_reused=2))
    for seconds, done in ((9.9, 1), (10.0, 2), (19.9, 3), (20.0, 4)):
        now[0] = 100.0 + seconds
        last = int(done == 4)
        watcher.advanced("x", Report(9, 2, done, num_lost=last, num_out_of_memory=2 * last))
    watcher.ended("x", result())
    watcher.ended("x", result(reused=True))
    watcher.ended("x", result(kept=3, lost=2, copied=1100))
    assert stream.getvalue().splitlines() == [
        "x: 2 of 9 shards",
        "x: 4 of 9 shards",
        "x: 6 of 9 shards, 1 workers lost, 2 workers ended for want of memory",
        "x: 1,200 rows in 1.3 s",
        "x: reused, 1,200 rows",
        "x: 1,200 rows in 1.3 s, 1,100 of them copied, 3 shards kept, 2 in quarantine",
    ]
    watcher.stop()


def test_a_terminal_gets_a_bar_that_goes_away(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    watcher = progress.TerminalWatcher(stream)
    watcher.began("x", Report(num_planned=9, num_reused=2, num_done=1))
    bar = watcher._progress
    assert (bar.tasks[0].total, bar.tasks[0].completed) == (9, 3)
    assert bar.live.transient
    watcher.advanced("x", Report(9, 2, 5))
    assert bar.tasks[0].completed == 7
    watcher.ended("x", result())
    assert watcher._progress is None and not bar.live.is_started
    assert "1,200 rows in 1.3 s" in stream.getvalue()
