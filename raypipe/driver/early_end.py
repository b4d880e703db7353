"""Records in an existing workspace that a command ended before its work began.

Otherwise yesterday's success would be read as today's after a typo in the recipe.
"""

import json
from pathlib import Path

from raypipe.errors import CorruptError, InputError, RaypipeError
from raypipe.regular import check_regular


def last_run(folder: Path) -> str | None:
    """The id of the invocation that summary.json is about; None if it cannot be read."""
    try:
        check_regular(folder / "summary.json")
        return str(json.loads((folder / "summary.json").read_bytes())["run"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def record_early_end(folder: Path, before: str | None, code: int, reason: str) -> None:
    """Write how the command ended, unless it did so itself or another invocation is at work.

    Nothing is written in a workspace of another format, or in one whose lease cannot be read.

    Args:
        folder: an existing workspace.
        before: its `last_run` before the command.
        code: the exit code.
        reason: one line.
    """
    from raypipe.driver.mirror import own_storage
    from raypipe.driver.summaries import new_summary, now, read_summary, write_summary
    from raypipe.driver.workspace import LEASE
    from raypipe.storage.holder import Life
    from raypipe.storage.leases.state import lease_state
    from raypipe.storage.records import unseal_format

    try:
        own = own_storage(folder)
        unseal_format(str(folder), own.read("workspace.json"))
        lease = lease_state(own, LEASE)
    except RaypipeError:
        return  # the command itself says what is wrong with the folder
    try:
        standing = read_summary(folder) or {}
    except CorruptError:
        standing = {}
    except InputError:
        return  # no file, which cannot be replaced
    if last_run(folder) != before or (lease is not None and lease.life() is not Life.DEAD):
        return
    ended = {"status": "failed", "exit": code, "reason": reason, "ended": now()}
    ended |= {key: standing[key] for key in ("workspace", "files") if key in standing}
    write_summary(folder, new_summary(None) | ended)
