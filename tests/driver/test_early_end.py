"""A command that ends before its work says so in the workspace, and never over another's work."""

import json

import pytest

from raypipe.cli.main import run
from raypipe.driver.early_end import last_run, record_early_end
from raypipe.driver.invocation import invocation
from raypipe.driver.upkeep.status import status
from raypipe.driver.workspace import Workspace
from raypipe.storage.leases.lease import acquire
from raypipe.storage.records import FORMAT, seal

RECIPE = """
format: 1
name: mine
collection: {format: msmarco-v1, input: nothing.tsv}
stages: {lucene: {do: index}}
"""


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A workspace whose last invocation was a success, and a recipe without its collection."""
    monkeypatch.chdir(tmp_path)
    workspace = Workspace(tmp_path / "work")
    with invocation(workspace, "mine"):
        pass
    (tmp_path / "mine.yaml").write_text(RECIPE)
    (tmp_path / "typo.yaml").write_text(RECIPE.replace("stages", "stagse"))
    return workspace


@pytest.mark.fault(45, "11 of 11 commands that end early leave no success in the workspace")
@pytest.mark.parametrize(
    "words",
    [
        "pipeline mine.yaml --out work",
        "pipeline typo.yaml --out=work",
        "pipeline none.yaml --out work",
        "pipeline mine.yaml --out work stages.none.depth=3",
        "pipeline mine.yaml --out work --only none",
        "pipeline mine.yaml --out work --no-such-option",
        "reindex mine.yaml --out work",
        "reindex mine.yaml --out work --max-drift x",
        "train none.yaml --out work",
        "search --index none --queries none --out work",
        "score --run none --collection none --queries none --model none --out work",
    ],
)
def test_yesterdays_success_is_not_read_as_todays(work, words):
    assert status(work.folder).exit_code == 0
    code, reason = run(words.split())
    assert code == 2
    found = status(work.folder)
    assert (found.state, found.exit_code, found.reason) == ("failed", 2, reason)


@pytest.mark.fault(45, "a command that is refused leaves the summary of the one at work")
def test_a_workspace_at_work_keeps_its_summary(work):
    held = acquire(work.own, "lease.json")
    work.write_summary({"status": "running", "exit": None, "run": "another"})
    assert run("pipeline typo.yaml --out work".split())[0] == 2
    assert work.read_summary()["run"] == "another"
    held.release()


def test_what_an_invocation_recorded_itself_stands(work):
    before = last_run(work.folder)
    work.write_summary({"run": "its own"})
    record_early_end(work.folder, before, 3, "incomplete")
    assert work.read_summary() == {"run": "its own"}


@pytest.mark.parametrize("content", [None, b"", b"{}", b"[]", json.dumps({"run": "x"}).encode()])
def test_the_last_run_of_a_damaged_summary_is_unknown(tmp_path, content):
    if content is not None:
        (tmp_path / "summary.json").write_bytes(content)
    assert last_run(tmp_path) == ("x" if content and b"x" in content else None)


@pytest.mark.parametrize("damage", ["another format", "a flipped byte", "a damaged claim"])
def test_nothing_is_written_in_a_workspace_that_cannot_be_read(work, damage):
    before = (work.folder / "summary.json").read_bytes()
    identity = work.folder / "workspace.json"
    if damage == "another format":
        identity.write_bytes(seal({"format": FORMAT - 1, "id": "x"}))
    elif damage == "a flipped byte":
        identity.write_bytes(identity.read_bytes()[:-2])
    else:
        (work.folder / "lease.json.d" / "0000001.json").write_bytes(b"{}")
        (work.folder / "lease.json").unlink()
    code, _ = run("pipeline typo.yaml --out work".split())
    assert code == 2 and (work.folder / "summary.json").read_bytes() == before
