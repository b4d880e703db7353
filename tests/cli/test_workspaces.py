"""Commands over a workspace: the one that their arguments name, sound or with a broken file."""

import json
import os
import shutil
from pathlib import Path

import pytest
import typer

from raypipe.cli.main import app, run
from raypipe.cli.options import with_folders
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


def told(folder, capsys, *options):
    capsys.readouterr()
    code, _ = run(["verify", str(folder), *options])
    return code, capsys.readouterr().out


def test_what_is_damaged_is_told_in_lines_or_in_one_object(work, tmp_path, capsys):
    folder = shutil.copytree(work, tmp_path / "work")
    assert told(folder, capsys) == (0, "every file has the bytes that were written\n")
    assert told(folder, capsys, "--json") == (0, '{"damaged": []}\n')
    (folder / "runs" / "test" / "one.trec").write_text("")
    code, out = told(folder, capsys)
    line, remedy = out.splitlines()
    assert code == 3 and line.startswith("runs/test/one.trec: ") and remedy.startswith("  remedy: ")
    code, out = told(folder, capsys, "--json")
    (damage,) = json.loads(out)["damaged"]
    assert (code, f"{damage['name']}: {damage['problem']}") == (3, line)
    assert damage["remedy"] == remedy.removeprefix("  remedy: ")


VERBS = (
    ("report",),
    ("analyse depth",),
    ("table",),
    ("show", "--query", "q1"),
    ("history",),
)


def replaced(data):
    def act(path):
        path.unlink()
        path.write_bytes(data)

    return act


def halved(path):
    half = path.read_bytes()[: path.stat().st_size // 2]
    replaced(half[: half.rfind(b"\n") + 1 or len(half)])(path)  # a path cut in two is another path


def flipped(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    replaced(bytes(data))(path)


def instead(make):
    def act(path):
        path.unlink()
        make(path)

    return act


DAMAGES = {
    "gone": Path.unlink,
    "empty": replaced(b""),
    "half": halved,
    "a flipped bit": flipped,
    "another kind": replaced(b"[null]"),
    "no name": replaced(b"format: 1\n"),
    "not a number": replaced(b'{"body": NaN, "sha256": 1e999}'),
    "deep": replaced(b"[" * 100_000),
    "a folder": instead(Path.mkdir),
    "a pipe": instead(os.mkfifo),
    "a loop": instead(lambda path: path.symlink_to(path.name)),
    "a device": instead(lambda path: path.symlink_to("/dev/zero")),
}
RECORDS = ("passages@collection", "ids@collection", "queries@test", "one.test")
FILES = (
    "summary.json", "results.json", "recipe.yaml", "workspace.json",
    *(f"stores/{name}/*/manifest.json" for name in RECORDS),
    *(f"blob of {name}" for name in RECORDS),
)  # fmt: skip
ALIKE = FILES[5:8] + FILES[9:]
"""The records and payloads of stores beside the first one's."""
HARMLESS = {("workspace.json", "gone"), ("summary.json", "gone")}
"""The one is written anew, as summary.json has the identity too; no results are in the other, which
`verify` and `status` alone miss."""


def place(work, file):
    if not file.startswith("blob of "):
        return next(work.glob(file))
    record = next(work.glob(f"stores/{file.removeprefix('blob of ')}/*/shards/00000.json"))
    sha256 = json.loads(record.read_bytes())["body"]["sha256"]
    return work / "stores" / "blobs" / sha256[:2] / sha256


@pytest.mark.fault(49, "12 files broken in 12 ways: 0 tracebacks, nothing waited for, each named")
@pytest.mark.parametrize(
    "file", [pytest.param(name, marks=pytest.mark.slow if name in ALIKE else ()) for name in FILES]
)
def test_a_broken_file_of_a_workspace_is_named_by_every_verb_that_needs_it(
    work, raypipe_here, tmp_path, file
):
    for damage, act in DAMAGES.items():
        copy = shutil.copytree(work, tmp_path / damage, copy_function=os.link)
        path = place(copy, file)
        act(path)
        verbs = VERBS if damage == "gone" else (*VERBS[-2:], ("verify",))
        ends = [raypipe_here(*verb[0].split(), copy, *verb[1:]) for verb in verbs]
        for verb, done in zip(verbs, ends, strict=True):
            said = f"{damage}: {verb}: {done.stderr}"
            assert done.returncode in (0, 2, 3), said
            assert "Traceback" not in done.stderr, said
            if done.returncode:
                named = [path.name, path.parent.parent.name, str(copy)]
                if path.is_file():  # a flipped bit may be one of a path
                    words = path.read_bytes().decode(errors="replace").split()
                    named += [word for word in words if "/" in word]
                assert any(name in done.stderr for name in named), said
        if (file, damage) not in HARMLESS:
            assert any(done.returncode for done in ends), damage


def test_a_page_is_written_over_what_is_no_file(work, raypipe_here, tmp_path):
    copy = shutil.copytree(work, tmp_path / "work")
    os.mkfifo(copy / "report.html")
    assert raypipe_here("report", copy).returncode == 0
    assert (copy / "report.html").is_file()


def test_each_prints_tables_or_one_object(work, capsys):
    capsys.readouterr()
    for verb, line in (
        ("depth", "| one         | -      | 1.0000 |"),
        ("fusion", "| one   | two  | 0.5000 |"),
        ("queries", "| q1    | a lease | 1        | 0.5000 | 1.0000 |"),
    ):
        assert run(["analyse", verb, str(work)])[0] == 0
        assert line in capsys.readouterr().out, verb
        assert run(["analyse", verb, str(work), "--json"])[0] == 0
        (section,) = json.loads(capsys.readouterr().out)["sections"]
        assert (section["name"], section["query_set"]) == (verb, "test")


def test_what_cannot_be_analysed_is_told(work, tmp_path, capsys):
    assert run(["analyse", "tradeoff", str(work)])[0] == 2
    assert "expected a duoBERT stage" in capsys.readouterr().err
    assert run(["analyse", "depth", str(work), "--queries", "dev"])[0] == 2
    assert "--queries dev: expected one of test" in capsys.readouterr().err
    assert run(["analyse", "depth", str(tmp_path)])[0] == 2
    assert run(["analyse", "depth", str(tmp_path / "nothing")])[0] == 2
