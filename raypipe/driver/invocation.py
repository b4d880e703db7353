"""The frame around the work of every invocation: the lease, the summary, and how it ended."""

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from raypipe.driver.mirror import begin, copy_out, is_copied_out, output_hash, own_storage
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
from raypipe.errors import (
    CorruptError,
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
    invocation first calls `work_begins`; until then the summary holds that of the last complete
    one, which readers go on showing.

    Raises:
        RefusedError: another invocation is working in the workspace, or has taken it over.
        StorageError: summary.json cannot say how it ended.
    """
    began = time.monotonic()
    summary = new_summary(recipe)
    with working_in(workspace.folder, workspace.own, workspace.gone) as lease:

        def tell_stores() -> None:
            _refuse_if_overtaken(workspace, lease)
            workspace.write_summary(summary | _stores(workspace))

        begin(workspace.folder)
        earlier = _earlier(workspace)
        before = earlier.get("files", {})
        summary |= earlier and {"earlier": earlier}
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
            if "made_of" in summary.pop("earlier", {}):
                summary.setdefault("made_of", earlier["made_of"])
            _refuse_if_overtaken(workspace, lease)
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
        if _is_said(folder, before, code, mine=mine):
            return
        with working_in(folder, own):
            if _is_said(folder, before, code, mine=mine):  # by who worked there until now
                return
            state = {"status": "failed" if code else "complete", "exit": code}
            ended = {**state, "reason": reason, "cause": cause}
            standing = _standing(folder)
            if last_run(folder) == before:  # of the last invocation only this is still true
                kept = {key: standing[key] for key in ("workspace", "files") if key in standing}
                worked = (folder / "stores" / "refs" / f"{identity}.json").is_file()
                standing = new_summary(None) | carried(folder, worked=worked) | kept
            write_summary(folder, standing | ended | {"ended": now()})
    except RaypipeError:
        return  # another one is at work, or the command itself says what is wrong with the folder


def _is_said(folder: Path, before: str | None, code: int, *, mine: bool) -> bool:
    """Whether summary.json is another command's, or says already how this one ended."""
    began = last_run(folder) != before
    said = _standing(folder).get("exit") == code and (began or code == 0)
    return said or (began and not mine)


def _standing(folder: Path) -> dict[str, Any]:
    try:
        return read_summary(folder) or {}
    except CorruptError:
        return {}


def _stores(workspace: Workspace) -> dict[str, Any]:
    """The stores of the invocation so far, and those of them that it did not find there."""
    return {"stores": sorted(workspace.used), "computed": sorted(workspace.computed)}


def _earlier(workspace: Workspace) -> dict[str, Any]:
    """The hashes of the files that stand since earlier invocations, and what they are made of.

    Each as far as the last summary says it. One that did not end well may have written over files
    of the invocations before it.
    """
    try:
        last = standing_of(workspace.read_summary() or {})
    except CorruptError:
        return {}
    before = last.get("earlier", {})
    folder, older = workspace.folder, before.get("files", {})
    files = {name: sha256 for name, sha256 in older.items() if output_hash(folder, name) == sha256}
    files |= last.get("files", {})
    made_of = last.get("made_of", before.get("made_of"))
    return {"files": files, **({} if made_of is None else {"made_of": made_of})} if files else {}


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
