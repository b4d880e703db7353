"""The frame around the work of every invocation: the lease, how it ended, and what then stands.

summary.json says `running` until the work ends, and then how it ended. results.json says which
results stand: it is taken away when the work begins to write files over, and written as the last of
them. A process that is killed in between leaves none.
"""

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from raypipe.driver.mirror import (
    begin,
    copy_out,
    is_copied_out,
    output_hash,
    own_storage,
    remove_out,
)
from raypipe.driver.summaries import (
    RESULTS,
    carried,
    has_results,
    new_summary,
    now,
    read_results,
    read_summary,
    undamaged,
    write_results,
    write_summary,
)
from raypipe.driver.workspace import LEASE, Workspace
from raypipe.errors import (
    LimitError,
    RaypipeError,
    RefusedError,
    StorageError,
    cause_of,
    ending_of,
)
from raypipe.regular import check_regular
from raypipe.storage.fence import (
    Fence,
    behind,
    fenced,
    make_staging,
    sweep_staging,
    taken_over,
)
from raypipe.storage.files import replace_file
from raypipe.storage.holder import Process, this_process
from raypipe.storage.lease import Lease, acquire, lease_state, new_token, tokens_of_claims
from raypipe.storage.records import hash_file, unseal_format
from raypipe.storage.storage import Storage
from raypipe.uris import in_bucket


@contextmanager
def invocation(workspace: Workspace, recipe: str) -> Iterator[dict[str, Any]]:
    """The summary to fill; it says `running` until the work ends, and then how it ended.

    It says what the process will say: see `ending_of`. Who writes over files of an earlier
    invocation first calls `workspace.work_begins`; until then the results of that one stand. Those
    of this one stand when it is complete, and where a limit refuses them: the user is told to look.

    Raises:
        RefusedError: another invocation is working in the workspace, or has taken it over.
        StorageError: summary.json cannot say how it ended.
    """
    began, folder = time.monotonic(), workspace.folder
    summary = new_summary(recipe)
    with working_in(folder, workspace.own, workspace.gone) as lease:

        def tell_stores() -> None:
            _refuse_if_overtaken(workspace, lease)
            workspace.write_summary(summary | _stores(workspace))

        def work_begins() -> dict[str, Any]:
            results = undamaged(read_results, folder) or {}
            workspace.shown.clear()
            remove_out(folder, RESULTS)
            return results

        begin(folder)
        summary |= carried(folder, worked=bool(workspace.refs()))
        results, earlier = undamaged(read_results, folder), summary["earlier"]
        if results is None:  # whoever ended without them may have written over these files
            files = earlier["files"].items()
            earlier["files"] = {
                f: sha256 for f, sha256 in files if output_hash(folder, f) == sha256
            }
        workspace.used.clear()
        workspace.computed.clear()
        workspace.written.clear()
        workspace.tell_stores, workspace.work_begins = tell_stores, work_begins
        workspace.write_summary(summary | {"workspace": workspace.id})
        try:
            workspace.settle()
            summary["workspace"] = workspace.id
            workspace.shown = {*(results or {}).get("stores", ())}
            refused = None
            try:
                yield summary
            except LimitError as error:
                refused = error
            copy_out(folder)
            summary["files"] = _hashes(workspace, earlier["files"])
            summary.setdefault("made_of", earlier["made_of"])
            del summary["earlier"]
            _refuse_if_overtaken(workspace, lease)
            summary |= _ended(refused) | _stores(workspace) | {"ended": now()}
            if refused is None:
                summary["seconds"] = round(time.monotonic() - began, 1)
            if has_results(summary):
                write_results(folder, summary)
            if refused is not None:
                raise refused
        except BaseException as error:
            summary |= _ended(error) | _stores(workspace) | {"ended": now()}
            raise
        finally:
            if not _overtaken(lease):  # a successor has a summary of its own
                _write_last(workspace, summary)


@contextmanager
def working_in(folder: Path, own: Storage, gone: set[Process] | None = None) -> Iterator[Lease]:
    """The lease of the workspace in `folder`, and a fence around its files until the block ends.

    Unfinished files that killed invocations left there are removed first.

    Args:
        folder: the workspace's, or the one that mirrors it.
        own: where its own records are.
        gone: see `acquire`.

    Raises:
        RefusedError: another invocation is working in the workspace, or has taken it over.
    """
    root, token = Path(os.path.abspath(folder)), new_token()
    leases: list[Lease] = []
    staging = make_staging(root, token)  # first: whoever finds a claim finds its folder too

    def replace(name: str, data: bytes) -> None:
        if in_bucket(own.uri):
            own.replace(name, data)
        else:
            replace_file(root / name, data)

    fence = Fence(root, staging, lambda: any(map(_overtaken, leases)))
    try:
        with fenced(fence):
            with behind(fence):
                lease = acquire(own, LEASE, gone=gone, token=token, replace=replace)
            leases.append(lease)
            try:
                with behind(fence):
                    tokens = partial(tokens_of_claims, own, LEASE, lease.generation)
                    sweep_staging(root, token, tokens)
                    yield lease
            finally:
                # The end is recorded; a lease that cannot be released is free once this process
                # has ended.
                with suppress(OSError, RefusedError):
                    lease.release()
                own.sweep()
    finally:
        shutil.rmtree(staging, ignore_errors=True)


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
        if _is_said(folder, before, code, mine=mine):
            return
        with working_in(folder, own):
            if _is_said(folder, before, code, mine=mine):  # by who worked there until now
                return
            state = {"status": "failed" if code else "complete", "exit": code}
            ended = {**state, "reason": reason, "cause": cause, "ended": now()}
            summary = undamaged(read_summary, folder) or {}
            if last_run(folder) == before:  # of the last invocation little is still true
                worked = (folder / "stores" / "refs" / f"{identity}.json").is_file()
                summary = new_summary(None) | carried(folder, worked=worked)
                summary["workspace"] = identity
            write_summary(folder, summary | ended)
    except RaypipeError:
        return  # another one is at work, or the command itself says what is wrong with the folder


def _is_said(folder: Path, before: str | None, code: int, *, mine: bool) -> bool:
    """Whether summary.json is another command's, or says already how this one ended."""
    began = last_run(folder) != before
    summary = undamaged(read_summary, folder) or {}
    said = summary.get("exit") == code and (began or code == 0)
    return said or (began and not mine)


def _ended(error: BaseException | None) -> dict[str, Any]:
    """How an invocation ended, by what ended it; None: it is complete."""
    if error is None:
        return {"status": "complete", "exit": 0, "reason": "complete"}
    code, reason = ending_of(error)
    return {"status": "failed", "exit": code, "reason": reason, "cause": cause_of(error)}


def _stores(workspace: Workspace) -> dict[str, Any]:
    """The stores of the invocation so far, and those of them that it did not find there."""
    return {"stores": sorted(workspace.used), "computed": sorted(workspace.computed)}


def _hashes(workspace: Workspace, before: dict[str, str]) -> dict[str, str]:
    """Name -> the SHA-256 of each file that was written, now or by an earlier invocation."""
    standing = {
        name: sha256 for name, sha256 in before.items() if (workspace.folder / name).exists()
    }
    names = (name for name in workspace.written if is_copied_out(workspace.folder, name))
    written = {name: hash_file(workspace.folder / name) for name in names}
    return dict(sorted({**standing, **written}.items()))


def _overtaken(lease: Lease) -> bool:
    """Whether another invocation has taken over; False if nothing can be found out."""
    try:
        return not lease.still_held()
    except OSError:
        return False


def _refuse_if_overtaken(workspace: Workspace, lease: Lease) -> None:
    if _overtaken(lease):
        raise taken_over(workspace.folder)


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
