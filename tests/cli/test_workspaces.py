"""Which workspace a command works in, by its arguments."""

import pytest
import typer

from raypipe.cli.main import app
from raypipe.cli.workspaces import with_folders
from raypipe.errors import InputError

COMMAND = typer.main.get_command(app())


def test_only_commands_that_write_workspaces_take_a_uri_for_out():
    assert with_folders(COMMAND, ["fuse", "--out", "here"]) == ["fuse", "--out", "here"]
    with pytest.raises(InputError, match="--out s3://b/x: fuse writes to a folder"):
        with_folders(COMMAND, ["fuse", "--runs", "a", "--out", "s3://b/x"])
    with pytest.raises(InputError, match="train writes to a folder"):
        with_folders(COMMAND, ["train", "r.yaml", "--out=s3://b/x"])
    exported = ["export", "s3://b/stores/vectors", "--out", "here"]
    assert with_folders(COMMAND, exported) == exported
    assert with_folders(COMMAND, ["prepare", "--input", "s3://b/x"]) == [
        "prepare",
        "--input",
        "s3://b/x",
    ]
    with pytest.raises(InputError, match="--queries s3://b/q: search reads it from a folder"):
        with_folders(COMMAND, ["search", "--index", "here", "--queries=s3://b/q"])


@pytest.mark.slow
def test_the_words_after_an_option_without_a_value_are_the_commands_own(bucket_uri, bucket_server):
    for words in (
        ["status", "--json"],
        ["gc", "--yes"],
        ["verify"],
        ["rollback"],
        ["analyse", "depth"],
        ["beir", "here", "--out"],
    ):
        (*same, folder) = with_folders(COMMAND, [*words, f"{bucket_uri}/work"])
        assert same == words and "raypipe/workspaces" in folder
    export = ["export", "--json", f"{bucket_uri}/stores/vectors"]
    assert with_folders(COMMAND, export) == export


def test_a_workspace_to_read_must_be_there(bucket_uri, bucket_server):
    with pytest.raises(InputError, match="--index s3://.*/none: no workspace; expected a place"):
        with_folders(COMMAND, ["search", "--index", f"{bucket_uri}/none"])
