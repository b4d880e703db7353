"""How an invocation ends: the process, summary.json and `raypipe status` say the same."""

import errno
import os

import pytest

from raypipe.cli.main import run
from raypipe.driver.invocation import invocation
from raypipe.driver.upkeep.status import status
from raypipe.driver.workspace import Workspace
from raypipe.errors import (
    CorruptError,
    IncompleteError,
    InputError,
    Interrupted,
    LimitError,
    RefusedError,
    StorageError,
    ending_of,
)
from raypipe.storage.holder import this_process
from raypipe.storage.records import seal


def failing(number):
    return OSError(number, os.strerror(number), "stores/blobs/ab")


OTHERS = {
    "a bug": KeyError("too"),
    "a timeout": TimeoutError("no answer"),
    "a connection": ConnectionResetError("peer"),
    "a library's": OSError("Couldn't deserialize thrift"),
    "ctrl-c": KeyboardInterrupt(),
    "input": InputError(["one", "two"]),
    "incomplete": IncompleteError("a"),
    "corrupt": CorruptError("a"),
    "storage": StorageError("a"),
    "refused": RefusedError("a"),
    "limit": LimitError("a\nb"),
    "terminated": Interrupted("SIGTERM", 143),
}
ENDS = {name: failing(number) for number, name in sorted(errno.errorcode.items())} | OTHERS


@pytest.mark.fault(9, "for every error number of the system, process, summary and `status` agree")
@pytest.mark.parametrize("error", ENDS.values(), ids=ENDS.keys())
def test_process_summary_and_status_agree_whatever_ended_the_work(tmp_path, monkeypatch, error):
    def command(**settings):
        with invocation(Workspace(tmp_path / "w"), "mine"):
            raise error

    monkeypatch.setattr("typer.main.get_command", lambda app: Command(command))
    code, reason = run([])
    summary = Workspace(tmp_path / "w").read_summary()
    told = status(tmp_path / "w")
    assert (code, reason) == (summary["exit"], summary["reason"]) == (told.exit_code, told.reason)
    assert code != 0 and summary["status"] == "failed" and "\n" not in reason


class Command:
    def __init__(self, act):
        self.main = act


@pytest.mark.fault(8, "a summary that cannot be written: exit 3, and `status` says 3")
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize("error", [None, InputError("bad"), KeyError("bug")], ids=repr)
def test_an_end_that_cannot_be_recorded_is_incomplete_for_process_and_status(
    tmp_path, monkeypatch, number, error
):
    workspace = Workspace(tmp_path / "w")
    with pytest.raises(StorageError, match=r"summary\.json.*it ended with exit") as raised:
        with invocation(workspace, "mine"):
            monkeypatch.setattr(Workspace, "write_summary", refuse(number))
            if error is not None:
                raise error
    assert ending_of(raised.value).exit_code == status(tmp_path / "w").exit_code == 3


def refuse(number):
    def write(*arguments, **settings):
        raise failing(number)

    return write


def test_a_lease_that_cannot_be_released_changes_no_ending(tmp_path, monkeypatch):
    workspace = Workspace(tmp_path / "w")
    with invocation(workspace, "mine"):
        monkeypatch.setattr("raypipe.storage.lease.Lease.release", refuse(errno.ENOSPC))
    assert status(tmp_path / "w").exit_code == 0


def test_a_summary_that_cannot_be_begun_leaves_no_lease(tmp_path, monkeypatch):
    workspace = Workspace(tmp_path / "w")
    with monkeypatch.context() as full:
        full.setattr(Workspace, "write_summary", refuse(errno.ENOSPC))
        with pytest.raises(OSError, match="No space"), invocation(workspace, "mine"):
            raise AssertionError("no work begins")
    with invocation(workspace, "mine"):
        pass


@pytest.mark.fault(13, "a driver that was succeeded leaves its successor's summary")
def test_a_driver_that_was_succeeded_leaves_its_successors_summary(tmp_path):
    workspace = Workspace(tmp_path / "w")
    with pytest.raises(RuntimeError), invocation(workspace, "mine"):
        claim = {"holder": this_process().to_json(), "processes": []}
        workspace.own.create("lease.json.d/0000002.json", seal(claim))
        workspace.write_summary({"run": "the successor's"})
        raise RuntimeError
    assert workspace.read_summary() == {"run": "the successor's"}
