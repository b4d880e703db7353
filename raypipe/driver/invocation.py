"""What surrounds the work of every invocation: the lease and the summary."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from raypipe.driver.mirror import begin, copy_out, is_copied_out
from raypipe.driver.summaries import carried, has_results, new_summary, now, standing_of
from raypipe.driver.workspace import LEASE, Workspace
from raypipe.errors import CorruptError, LimitError, StorageError, ending_of
from raypipe.storage.lease import Lease, acquire
from raypipe.storage.records import hash_file


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
        summary |= carried(workspace.folder)
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
