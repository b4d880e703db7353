"""A workspace in which a file is missing, or is a pipe, to which nobody ever writes."""

import json
import os
import shutil
import signal

import pytest


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
