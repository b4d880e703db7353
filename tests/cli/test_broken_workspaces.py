"""report, analyse, show and table over workspaces of which a file is broken."""

import json
import os
import shutil
from pathlib import Path

import pytest

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
@pytest.mark.parametrize("file", FILES)
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
