"""A command whose stdout or stderr is closed, full, or read by nobody any more."""

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest
from on_terminal import on_terminal


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


@pytest.mark.parametrize(
    "redirected",
    [">&- 2>&-", *(pytest.param(each, marks=pytest.mark.slow) for each in (">&-", "2>&-"))],
)
def test_closed_streams_do_not_change_how_a_command_ends(redirected):
    assert ran("--version", redirected=redirected, capture_output=True).returncode == 0


def test_a_line_on_stderr_is_there_when_the_process_dies_before_its_end():
    dies = "import os, sys; from raypipe.cli.terminal import make_lasting; make_lasting();"
    dies += "print('begun', file=sys.stderr); os._exit(9)"
    done = subprocess.run([sys.executable, "-c", dies], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (9, "begun\n")


def test_a_command_whose_work_is_to_print_says_nothing_behind_it_unless_it_fails():
    done = ran("recipes", redirected=">&-", capture_output=True)
    assert (done.returncode, done.stderr) == (0, "")
    done = ran("recipes", "no-such-recipe", capture_output=True)
    assert done.stderr.splitlines()[-1] == "raypipe: exit 2 (bad input or configuration)"


FULL = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")


@FULL
@pytest.mark.parametrize("line", ["recipes", "leaderboard template"], ids=["printed", "held back"])
def test_a_full_disk_below_stdout_is_told(line):
    done = ran(*line.split(), redirected=">/dev/full", stderr=subprocess.PIPE)
    assert done.returncode == 3
    assert done.stderr.splitlines() == [
        "error: No space left on device; free space there (`raypipe plan` says what a recipe's "
        "stores take) and run the same command again",
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


ESCAPES = "\x1b]0;owned\x07\x1b[31m\u202e\x9b2J"


def test_escape_sequences_of_files_and_names_are_shown_and_not_obeyed(
    raypipe_cli, raypipe_here, tmp_path
):
    run, qrels = tmp_path / "a.run", tmp_path / "qrels.txt"
    qrels.write_text("q 0 p 1\n")
    twice = f"q{ESCAPES} Q0 p{ESCAPES} 1 1 x\n"
    run.write_text(2 * twice)
    unjudged = tmp_path / "b.run"
    unjudged.write_text(
        f"q Q0 p 1 2 x\n{twice}{twice.replace(' Q0 p', ' Q0 r').replace(' 1 1', ' 2 3')}"
    )
    recipe = tmp_path / "r.yaml"
    recipe.write_text("format: 1\n")
    for raypipe, *arguments in (
        (raypipe_here, "evaluate", run, "--qrels", qrels),
        (raypipe_cli, "evaluate", unjudged, "--qrels", qrels),  # its log too
        (raypipe_here, "pipeline", f"recipe{ESCAPES}", "--out", tmp_path / "out"),
        (raypipe_here, "pipeline", recipe, f"key{ESCAPES}=1", "--out", tmp_path / "out"),
        (raypipe_here, "status", tmp_path / ESCAPES),
        (raypipe_here, f"verb{ESCAPES}"),
    ):
        done = raypipe(*arguments)
        assert not {"\x1b", "\x07", "\u202e", "\x9b"} & {*done.stderr}, arguments
        assert r"\x1b]0;owned\x07\x1b[31m\u202e\x9b2J" in done.stderr, (arguments, done.stderr)


def test_on_a_terminal_the_ids_of_a_run_are_shown_and_colours_are_rich_own(tiny_model, tmp_path):
    (tmp_path / "qrels.txt").write_text("q 0 p 1\n")
    run = tmp_path / f"a{ESCAPES}.run"
    run.write_text("q Q0 p 1 1 x\n")
    folder = shutil.copytree(tiny_model, tmp_path / f"m{ESCAPES}")
    body = json.loads((folder / "raypipe.json").read_text())
    made_by = {"made_by": {"recipe": ESCAPES, "step": 1, "steps": 2}}
    (folder / "raypipe.json").write_text(json.dumps(body | made_by))
    for arguments in (
        ("evaluate", run, "--qrels", tmp_path / "qrels.txt"),
        ("model", "show", folder),
    ):
        shown = on_terminal(*arguments, columns=300)
        assert shown.exit_code == 0 and r"\x1b]0;owned\x07\x1b[31m\u202e\x9b2J" in shown.raw
        assert not {"\x07", "\u202e", "\x9b"} & {*shown.raw} and "\x1b]" not in shown.raw
    assert "\x1b[1m" in on_terminal("evaluate", "-h").raw


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A workspace with a generation, and its recipe."""
    from raypipe.cli.main import run

    folder = tmp_path_factory.mktemp("published")
    (folder / "passages.tsv").write_text("1\ta text\n2\tanother\n")
    recipe = {"format": 1, "name": "small", "resources": {"backend": "inline"}}
    recipe["collection"] = {"format": "msmarco-v1", "input": "passages.tsv"}
    (folder / "r.yaml").write_text(json.dumps(recipe))
    assert run(["reindex", str(folder / "r.yaml"), "--out", str(folder / "work")])[0] == 0
    return folder


@pytest.fixture
def no_waiting():
    """An error where a command waits; processors' time would not pass."""
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(60)
    yield
    signal.alarm(0)


def test_a_workspace_without_its_identity_says_so(published, raypipe_here, caplog, tmp_path):
    folder = shutil.copytree(published, tmp_path / "copy")
    shutil.rmtree(published / "work")  # so this is no copy, but a folder that was moved
    words = ("reindex", folder / "r.yaml", "--out", folder / "work")
    told = "workspace.json was missing; its identity is now that of"
    assert raypipe_here(*words).returncode == 0 and told not in caplog.text
    (folder / "work" / "workspace.json").unlink()
    assert raypipe_here(*words).returncode == 0 and told in caplog.text
    shutil.copytree(folder / "work", published / "work")


PLACES = [
    *("summary.json", "recipe.yaml", "workspace.json", "lease.json", "stores/format.json"),
    *("stores/refs/*.json", "stores/generations/small/*.json", "stores/passages*/*/attempts.jsonl"),
    *("stores/passages*/*/manifest.json", "stores/passages*/*/spec.json"),
]


@pytest.mark.parametrize("place", PLACES)
def test_a_pipe_in_the_place_of_a_record_keeps_no_command_waiting(
    published, no_waiting, raypipe_here, tmp_path, place
):
    folder = shutil.copytree(published, tmp_path / "copy")
    file = next((folder / "work").glob(place))
    file.unlink()
    os.mkfifo(file)
    recipe = folder / "r.yaml"
    for words in ("history", "status", "plan", "reindex"):
        on = (
            (folder / "work",)
            if words in ("history", "status")
            else (recipe, "--out", folder / "work")
        )
        done = raypipe_here(words, *on)
        assert done.returncode in (0, 2, 3, 5) and "Traceback" not in done.stderr, (words, done)
