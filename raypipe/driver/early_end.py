"""Records in an existing workspace that a command ended before its work began.

Otherwise yesterday's success would be read as today's after a typo in the recipe.
"""

import json
import uuid
from pathlib import Path


def last_run(folder: Path) -> str | None:
    """The id of the invocation that summary.json is about; None if it cannot be read."""
    try:
        return str(json.loads((folder / "summary.json").read_bytes())["run"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def record_early_end(folder: Path, before: str | None, code: int, reason: str) -> None:
    """Write how the command ended, unless it did so itself or another invocation is at work.

    Args:
        folder: an existing workspace.
        before: its `last_run` before the command.
        code: the exit code.
        reason: one line.
    """
    from raypipe.driver.workspace import LEASE
    from raypipe.storage.files import replace_file
    from raypipe.storage.holder import Life
    from raypipe.storage.lease import lease_state
    from raypipe.storage.places.opening import open_storage

    lease = lease_state(open_storage(str(folder)), LEASE)
    if last_run(folder) != before or (lease is not None and lease.life() is not Life.DEAD):
        return
    summary = {"format": 1, "status": "failed", "exit": code, "reason": reason}
    body = {**summary, "run": uuid.uuid4().hex[:12], "recipe": None}
    replace_file(folder / "summary.json", json.dumps(body, indent=1).encode() + b"\n")
