"""What surrounds the work of every invocation: the lease, the summary, and how it ended."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from raypipe.driver.mirror import begin, copy_out, is_copied_out, own_storage
from raypipe.driver.summaries import (
    carried,
    has_results,
    new_summary,
    now,
    read_summary,
    standing_of,
    write_summary,
)
from raypipe.driver.workspace import LEASE, Workspace
from raypipe.errors import CorruptError, LimitError, RaypipeError, StorageError, cause_of, ending_of
from raypipe.regular import check_regular
from raypipe.storage.holder import this_process
from raypipe.storage.lease import Lease, acquire, lease_state, living
from raypipe.storage.records import hash_file, unseal_format


@contextmanager
def invocation(workspace: Workspace, recipe: str) -> Iterator[dict[str, Any]]:
    """The summary to fill; it says `running` until the work ends, and then how it ended.

    It says what the process will say: see `ending_of`. Who writes over files of an earlier
    invocation first calls `work_begins`; until then the summary holds that of the last complete
    one, which readers go on showing.

    Raises:
        RefusedError: another invocation is working in the workspace.
        StorageError: summary.json cannot say how it ended.
    """
    lease = acquire(workspace.own, LEASE, gone=workspace.gone)
    began = time.monotonic()
    summary = new_summary(recipe)

    def tell_stores() -> None:
        if not _overtaken(lease):
            workspace.write_summary(summary | _stores(workspace))

    try:
        begin(workspace.folder)
        before = _files_before(workspace)
        summary |= carried(workspace.folder, worked=bool(workspace.refs()))
        workspace.used.clear()
        workspace.computed.clear()
        workspace.written.clear()
        workspace.tell_stores = tell_stores
        workspace.write_summary(summary | {"workspace": workspace.id})
        try:
            workspace.settle()
            summary["workspace"] = workspace.id
            workspace.shown = {*summary.get("last_complete", {}).get("stores", ())}
            try:
                yield summary
            except LimitError:  # the user is told to look at what was written
                copy_out(workspace.folder)
                summary["files"] = _hashes(workspace, {})
                raise
            copy_out(workspace.folder)
            summary["files"] = _hashes(workspace, before)
            if has_results(summary):
                summary.pop("last_complete", None)
            summary |= {"status": "complete", "exit": 0, "reason": "complete"}
            summary["seconds"] = round(time.monotonic() - began, 1)
        except BaseException as error:
            code, reason = ending_of(error)
            summary |= {"status": "failed", "exit": code, "reason": reason}
            summary["cause"] = cause_of(error)
            if not workspace.written:  # so what an earlier invocation left still stands
                summary.setdefault("files", before)
            raise
        finally:
            summary |= _stores(workspace) | {"ended": now()}
            if not _overtaken(lease):  # a successor has a summary of its own
                _write_last(workspace, summary)
    finally:
        # The end is recorded; a lease that cannot be released is free once this process has ended.
        with suppress(OSError):
            lease.release()
        workspace.own.sweep()


def work_begins(workspace: Workspace, summary: dict[str, Any]) -> None:
    """Say that from here on files of the last complete invocation are written over."""
    workspace.shown.clear()
    if summary.pop("last_complete", None) is not None:
        workspace.tell_stores()


def last_run(folder: Path) -> str | None:
    """The id of the invocation that summary.json is about; None if it cannot be read."""
    try:
        check_regular(folder / "summary.json")
        return str(json.loads((folder / "summary.json").read_bytes())["run"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def record_end(
    folder: Path, before: str | None, code: int, reason: str, cause: str | None = None
) -> None:
    """Write how the command ended, unless summary.json says so or another one is at work.

    Nothing is written in a folder that is no workspace or one of another format, or if its lease
    cannot be read.

    Args:
        folder: where the command works; it may not exist.
        before: its `last_run` before the command.
        code: the exit code.
        reason: one line.
        cause: a word for it; see `cause_of`.
    """
    if not (folder / "workspace.json").is_file():
        return
    try:
        own = own_storage(folder)
        identity = unseal_format(str(folder), own.read("workspace.json")).get("id")
        lease = lease_state(own, LEASE)
        mine = lease is not None and lease.holder == this_process()
        if not mine and living(own, LEASE) is not None:
            return
    except RaypipeError:
        return  # the command itself says what is wrong with the folder
    try:
        standing = read_summary(folder) or {}
    except CorruptError:
        standing = {}
    began = last_run(folder) != before
    said = standing.get("exit") == code and (began or code == 0)
    if said or (began and not mine):
        return
    state = {"status": "failed" if code else "complete", "exit": code}
    ended = {**state, "reason": reason, "cause": cause}
    if not began:  # of the last invocation only this is still true
        kept = {key: standing[key] for key in ("workspace", "files") if key in standing}
        worked = (folder / "stores" / "refs" / f"{identity}.json").is_file()
        standing = new_summary(None) | carried(folder, worked=worked) | kept
    write_summary(folder, standing | ended | {"ended": now()})


def _stores(workspace: Workspace) -> dict[str, Any]:
    """The stores of the invocation so far, and those of them that it did not find there."""
    return {"stores": sorted(workspace.used), "computed": sorted(workspace.computed)}


def _files_before(workspace: Workspace) -> dict[str, str]:
    """The hashes of the files that stand since earlier invocations, if the last one said them."""
    try:
        return dict(standing_of(workspace.read_summary() or {}).get("files", {}))
    except CorruptError:
        return {}


def _hashes(workspace: Workspace, before: dict[str, str]) -> dict[str, str]:
    """By name, the SHA-256 of the files that were written, now or by an earlier invocation."""
    standing = {name: held for name, held in before.items() if (workspace.folder / name).exists()}
    names = (name for name in workspace.written if is_copied_out(workspace.folder, name))
    written = {name: hash_file(workspace.folder / name) for name in names}
    return dict(sorted({**standing, **written}.items()))


def _overtaken(lease: Lease) -> bool:
    """Whether another invocation has taken over; False if nothing can be found out."""
    try:
        return not lease.still_held()
    except OSError:
        return False


def _write_last(workspace: Workspace, summary: dict[str, Any]) -> None:
    """Write how the invocation ended.

    Raises:
        StorageError: it cannot be written, so `status` will say that this driver was killed (3).
    """
    try:
        workspace.write_summary(summary)
    except OSError as error:
        raise StorageError(
            f"{workspace.folder / 'summary.json'}: the end of this invocation cannot be recorded: "
            f"{ending_of(error).reason}; it ended with exit {summary['exit']}: {summary['reason']}"
        ) from error
