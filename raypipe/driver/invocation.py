"""What surrounds the work of every invocation: the lease and the summary."""

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from raypipe.driver.workspace import LEASE, Workspace
from raypipe.errors import RaypipeError, first_line
from raypipe.storage.lease import acquire


@contextmanager
def invocation(workspace: Workspace, recipe: str) -> Iterator[dict[str, Any]]:
    """The summary to fill; it says `running` until the work ends, and then how it ended.

    Raises:
        RefusedError: another invocation is working in the workspace.
    """
    lease = acquire(workspace.own, LEASE, gone=workspace.gone)
    began = time.monotonic()
    summary: dict[str, Any] = {
        "format": 1,
        "status": "running",
        "exit": None,
        "reason": None,
        "run": uuid.uuid4().hex[:12],
        "recipe": recipe,
    }
    workspace.write_summary(summary)
    try:
        yield summary
        summary |= {"status": "complete", "exit": 0, "reason": "complete"}
        summary["seconds"] = round(time.monotonic() - began, 1)
    except BaseException as error:
        code = error.exit_code if isinstance(error, RaypipeError) else 1
        reason = first_line(error)
        summary |= {"status": "failed", "exit": code, "reason": reason}
        raise
    finally:
        workspace.write_summary(summary)
        lease.release()
        workspace.own.sweep()
