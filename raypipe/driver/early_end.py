"""Records in an existing workspace how a command ended that did not record it itself.

Otherwise yesterday's success would be read as today's after a typo in the recipe.
"""

import json
from pathlib import Path

from raypipe.errors import CorruptError, RaypipeError
from raypipe.regular import check_regular


def last_run(folder: Path) -> str | None:
    """The id of the invocation that summary.json is about; None if it cannot be read."""
    try:
        check_regular(folder / "summary.json")
        return str(json.loads((folder / "summary.json").read_bytes())["run"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def record_end(folder: Path, before: str | None, code: int, reason: str) -> None:
    """Write how the command ended, unless summary.json says so or another one is at work.

    Nothing is written in a folder that is no workspace or one of another format, or if its lease
    cannot be read.

    Args:
        folder: where the command works; it may not exist.
        before: its `last_run` before the command.
        code: the exit code.
        reason: one line.
    """
    from raypipe.driver.mirror import own_storage
    from raypipe.driver.summaries import carried, new_summary, now, read_summary, write_summary
    from raypipe.driver.workspace import LEASE
    from raypipe.storage.holder import this_process
    from raypipe.storage.lease import lease_state, living
    from raypipe.storage.records import unseal_format

    if not (folder / "workspace.json").is_file():
        return
    try:
        own = own_storage(folder)
        unseal_format(str(folder), own.read("workspace.json"))
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
    ended = {"status": "failed" if code else "complete", "exit": code, "reason": reason}
    if not began:  # of the last invocation only this is still true
        kept = {key: standing[key] for key in ("workspace", "files") if key in standing}
        standing = new_summary(None) | carried(folder) | kept
    write_summary(folder, standing | ended | {"ended": now()})
