"""What surrounds the work of every invocation: the lease and the summary."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from raypipe.driver.mirror import begin, copy_out
from raypipe.driver.workspace import LEASE, Workspace, new_summary
from raypipe.errors import StorageError, ending_of
from raypipe.storage.lease import Lease, acquire


@contextmanager
def invocation(workspace: Workspace, recipe: str) -> Iterator[dict[str, Any]]:
    """The summary to fill; it says `running` until the work ends, and then how it ended.

    It says what the process will say: see `ending_of`.

    Raises:
        RefusedError: another invocation is working in the workspace.
        StorageError: summary.json cannot say how it ended.
    """
    lease = acquire(workspace.own, LEASE, gone=workspace.gone)
    begin(workspace.folder)
    began = time.monotonic()
    summary = new_summary(recipe)
    try:
        workspace.write_summary(summary)
        try:
            yield summary
            copy_out(workspace.folder)
            summary |= {"status": "complete", "exit": 0, "reason": "complete"}
            summary["seconds"] = round(time.monotonic() - began, 1)
        except BaseException as error:
            code, reason = ending_of(error)
            summary |= {"status": "failed", "exit": code, "reason": reason}
            raise
        finally:
            if not _overtaken(lease):  # a successor has a summary of its own
                _write_last(workspace, summary)
    finally:
        # The end is recorded; a lease that cannot be released is free once this process has ended.
        with suppress(OSError):
            lease.release()
        workspace.own.sweep()


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
