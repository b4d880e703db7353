"""A command whose stdout or stderr is closed, full, or read by nobody any more."""

import os
import subprocess
import sys

import pytest


def ran(*arguments, redirected="", **streams):
    command = [sys.executable, "-m", "raypipe", *arguments]
    line = f'"$@" {redirected}'
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    whole = ["sh", "-c", line, "sh", *command]
    return subprocess.run(whole, text=True, check=False, env=variables, **streams)


@pytest.mark.slow
@pytest.mark.parametrize("line", ["recipes", "leaderboard template"], ids=["printed", "held back"])
def test_who_stops_reading_gets_exit_3_and_the_last_line(line):
    reading, writing = os.pipe()
    os.close(reading)
    done = ran(*line.split(), stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (done.returncode, done.stderr) == (
        3,
        "raypipe: exit 3 (a pipe was closed before all was written to it, as stdout is by "
        "`| head`)\n",
    )


@pytest.mark.parametrize("redirected", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams_do_not_change_how_a_command_ends(redirected):
    assert ran("--version", redirected=redirected, capture_output=True).returncode == 0


def test_with_stdout_closed_the_last_line_is_there():
    done = ran("recipes", redirected=">&-", capture_output=True)
    assert (done.returncode, done.stderr) == (0, "raypipe: exit 0 (complete)\n")


FULL = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")


@FULL
@pytest.mark.parametrize("line", ["recipes", "leaderboard template"], ids=["printed", "held back"])
def test_a_full_disk_below_stdout_is_told(line):
    done = ran(*line.split(), redirected=">/dev/full", stderr=subprocess.PIPE)
    assert done.returncode == 3
    assert done.stderr.splitlines() == [
        "error: No space left on device; mend this and run the same command again",
        "raypipe: exit 3 (incomplete, corrupt, or storage failed)",
    ]


@FULL
@pytest.mark.parametrize(
    "arguments, code",
    [(["status", "none"], 2), (["nonsense"], 2), (["--version"], 0)],
    ids=["an error", "a word that is no verb", "no error"],
)
def test_where_stderr_is_full_the_exit_code_still_tells(arguments, code):
    assert ran(*arguments, redirected="2>/dev/full", capture_output=True).returncode == code


def test_what_a_closed_stderr_should_get_is_not_written_to_stdout():
    done = ran("status", "none", redirected="2>&-", capture_output=True)
    assert (done.returncode, done.stdout) == (2, "")
