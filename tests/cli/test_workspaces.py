"""Which workspace a command works in, by its arguments."""

import pytest
import typer

from raypipe.cli.main import app
from raypipe.cli.workspaces import FLAGS, value_of_out, with_folders, workspace_of
from raypipe.driver.workspace import Workspace
from raypipe.errors import InputError


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("pipeline x --out work", "work"),
        ("pipeline x --out other --out=work", "work"),
        ("pipeline x --out nowhere", None),
        ("pipeline x", "raypipe-work"),
        ("export x --out work", None),
        ("leaderboard pack --out work", None),
        ("encode --out", None),
        ("", None),
    ],
)
def test_only_commands_that_run_stages_have_a_workspace(tmp_path, monkeypatch, words, expected):
    monkeypatch.chdir(tmp_path)
    for name in ("work", "raypipe-work"):
        Workspace(tmp_path / name)
    found = workspace_of(words.split())
    assert (None if found is None else str(found)) == expected


def test_the_last_out_of_a_command_counts():
    assert value_of_out(["a", "--out", "b", "--out=c"]) == "c"
    assert value_of_out(["a", "--out=c", "--out", "b"]) == "b"
    assert value_of_out(["a", "--out"]) is None


def test_only_commands_that_write_workspaces_take_a_uri_for_out():
    assert with_folders(["fuse", "--out", "here"]) == ["fuse", "--out", "here"]
    with pytest.raises(InputError, match="--out s3://b/x: fuse writes to a folder"):
        with_folders(["fuse", "--runs", "a", "--out", "s3://b/x"])
    with pytest.raises(InputError, match="train writes to a folder"):
        with_folders(["train", "r.yaml", "--out=s3://b/x"])
    exported = ["export", "s3://b/stores/vectors", "--out", "here"]
    assert with_folders(exported) == exported
    assert with_folders(["prepare", "--input", "s3://b/x"]) == ["prepare", "--input", "s3://b/x"]
    with pytest.raises(InputError, match="--queries s3://b/q: search reads it from a folder"):
        with_folders(["search", "--index", "here", "--queries=s3://b/q"])


def test_the_options_without_a_value_are_those_of_the_commands():
    waiting, found = [typer.main.get_command(app)], []
    while waiting:
        command = waiting.pop()
        waiting += getattr(command, "commands", {}).values()
        found += [option for option in command.params if getattr(option, "is_flag", False)]
    assert {name for option in found for name in option.opts} | {"--help"} == FLAGS


@pytest.mark.slow
def test_the_words_after_an_option_without_a_value_are_the_commands_own(bucket_uri, bucket_server):
    for words in (["status", "--json"], ["gc", "--yes"], ["verify"]):
        (*same, folder) = with_folders([*words, f"{bucket_uri}/work"])
        assert same == words and "raypipe/workspaces" in folder
    export = ["export", "--json", f"{bucket_uri}/stores/vectors"]
    assert with_folders(export) == export


def test_a_workspace_to_read_must_be_there(bucket_uri, bucket_server):
    with pytest.raises(InputError, match="--index s3://.*/none: no workspace; expected a place"):
        with_folders(["search", "--index", f"{bucket_uri}/none"])
