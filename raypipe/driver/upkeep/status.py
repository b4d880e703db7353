"""What a workspace says about its last invocation; loads neither Ray nor torch."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from raypipe.config import read_resolved
from raypipe.driver.mirror import address_of
from raypipe.driver.workspace import LEASE, Workspace
from raypipe.errors import InputError
from raypipe.shapes import Shape, check_shape
from raypipe.storage.holder import Life
from raypipe.storage.leases.state import lease_state, renews
from raypipe.storage.ledger import Ledger
from raypipe.storage.store_records import read_manifest, read_spec

INCOMPLETE = 3


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a workspace."""

    state: str
    """running, complete, failed, or killed (recorded as running, but without a live driver)."""
    exit_code: int
    """The exit code of `raypipe status`: that of the invocation, or 0 while it runs."""
    reason: str
    stores: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The progress of each store; `earlier` if this invocation has not used it up to now."""


def status(folder: Path) -> Status:
    """The state of a workspace and the progress of each of its stores.

    Raises:
        InputError: no invocation ever began here, or its recipe.yaml cannot be read.
        CorruptError: summary.json or a record is damaged.
    """
    if not _is_workspace(folder):
        raise InputError(
            f"{address_of(folder)}: no workspace; expected a folder that `--out` named"
        )
    workspace = Workspace(folder, _stores(folder))
    summary = workspace.read_summary()
    if summary is None:
        raise InputError(f"{folder}: no invocation has begun here: there is no summary.json")
    check_shape(str(folder / "summary.json"), summary, _State, remedy=_REMEDY)
    used = set(summary.get("stores", ()))
    stores = {
        store: _progress(workspace, store, fingerprint)
        | ({} if f"{store}/{fingerprint}" in used else {"earlier": True})
        for store, fingerprint in sorted(workspace.refs().items())
    }
    if summary["status"] != "running":
        check_shape(str(folder / "summary.json"), summary, _Ended, remedy=_REMEDY)
        return Status(summary["status"], summary["exit"], summary["reason"], stores)
    lease = lease_state(workspace.own, LEASE)
    life = Life.DEAD if lease is None else lease.life()
    if life is Life.UNKNOWN and not renews(workspace.own, LEASE):  # another host or container
        life = Life.DEAD
    if lease is None or life is Life.DEAD:
        reason = "its driver was killed; the same command resumes"
        return Status("killed", INCOMPLETE, reason, stores)
    return Status("running", 0, f"{lease.holder} is working", stores)


class _State(Shape):
    status: str


class _Ended(Shape):
    exit: Annotated[int, Field(ge=0, le=255)]
    reason: str | None


_REMEDY = "run the same command again, which writes this file anew"


def _progress(workspace: Workspace, store: str, fingerprint: str) -> dict[str, Any]:
    if read_manifest(workspace.stores, store, fingerprint) is not None:
        return {"state": "complete"}
    name = f"{store}/{fingerprint}/plan.json"
    if not workspace.stores.exists(name):
        return {"state": "not planned"}
    ledger = Ledger(workspace.stores, store, read_spec(workspace.stores, store, fingerprint))
    done = len(ledger.shards) - len(ledger.pending())
    return {"state": "incomplete", "shards": len(ledger.shards), "done": done}


def _is_workspace(folder: Path) -> bool:
    """Whether an invocation began here; a lost workspace.json is written again."""
    return any((folder / name).exists() for name in ("workspace.json", "summary.json"))


def _stores(folder: Path) -> str | None:
    """The root of the stores of the last invocation's recipe."""
    path = folder / "recipe.yaml"
    return read_resolved(path).get("stores") if path.exists() else None


def open_workspace(folder: Path) -> Workspace:
    """An existing workspace, with the stores that its recipe names.

    Raises:
        InputError: the folder is not a workspace, or its recipe.yaml cannot be read.
    """
    if not _is_workspace(folder):
        raise InputError(
            f"{address_of(folder)}: no workspace; expected a folder that `--out` named"
        )
    return Workspace(folder, _stores(folder))
