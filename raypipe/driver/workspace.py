"""A workspace folder: its identity, its summary and its references to stores."""

import logging
import os
import secrets
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from raypipe.config.resolved import is_resolved
from raypipe.driver.mirror import MARK, address_of, own_storage, remove_out, write_out
from raypipe.driver.summaries import read_results, read_summary, undamaged, write_summary
from raypipe.errors import CorruptError, InputError, RaypipeError
from raypipe.regular import check_folder
from raypipe.storage.cleanup import wait_for_gc
from raypipe.storage.fence import check_fence
from raypipe.storage.files import make_folder, replace_file
from raypipe.storage.holder import Process
from raypipe.storage.ledger import Ledger, read_manifest, restore_plan, restore_spec, work_label
from raypipe.storage.records import (
    FORMAT,
    Json,
    Manifest,
    Place,
    Shape,
    Shard,
    check_shape,
    seal,
    unseal,
    unseal_format,
)
from raypipe.storage.root import check_root, mark_root, open_storage
from raypipe.storage.spec import StageSpec
from raypipe.storage.storage import Storage

LEASE = "lease.json"
log = logging.getLogger(__name__)


def place_of(own: Storage, stores: Storage) -> dict[str, str]:
    """Where a workspace and its stores are, as its refs record it."""
    return {"workspace": _resolved(own.uri), "stores": _resolved(stores.uri)}


def is_copy(place: Mapping[str, str], registered: Mapping[str, str], identity: str) -> bool:
    """Whether the workspace that registered this identity is another one, which still exists.

    Stores that were copied or moved along with their workspace are shared with nobody, and a
    workspace that is no longer where it was has been moved.
    """
    if registered["stores"] != place["stores"]:
        return False
    other = registered["workspace"]
    if _is_same(other, place["workspace"]):
        return False
    try:
        body = unseal("workspace.json", open_storage(other).read("workspace.json"))
    except (OSError, RaypipeError):
        return False
    return body.get("id") == identity


def _is_same(one: str, other: str) -> bool:
    """Whether two places are one, perhaps seen by two paths."""
    if one == other or "://" in one + other:
        return one == other
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def refuse_users_files(folder: Path, files: Iterable[str], models: Iterable[str] = ()) -> None:
    """Refuse to write over files that no invocation wrote, before anything is written.

    Args:
        folder: where the invocation is to work.
        files: names of files to be written; in a folder that is a workspace they are its own.
        models: names of folders of models to be written, of which raypipe.json or results.json says
            that an invocation wrote them. If that ended well, no other files may be in them, since
            the whole folder is replaced.

    Raises:
        InputError: there are such files.
    """
    if (folder / MARK).exists():
        return
    own = any((folder / name).exists() for name in ("workspace.json", "summary.json"))
    paths = [folder / name for name in ([] if own else files)]
    taken = [path for path in paths if path.is_file() and not is_resolved(path)]
    for name in models:
        path = folder / name
        results = undamaged(read_results, folder) or {}
        written = {folder / each for each in results.get("files", ())}
        inside = sorted(each for each in path.rglob("*") if not each.is_dir())
        if not written.isdisjoint(inside):
            taken += [each for each in inside if each not in written]
        elif inside and not (path / "raypipe.json").exists():
            taken.append(path)
    if taken:
        raise InputError(
            [
                f"{path}: raypipe would write its own over it, and did not write it; name another "
                "--out, or move it away"
                for path in taken
            ]
        )


def _resolved(uri: str) -> str:
    return uri if "://" in uri else os.path.realpath(uri)


class Workspace:
    """The folder that an invocation writes to. It can be moved, and may share its stores."""

    def __init__(self, folder: Path, stores: str | None = None) -> None:
        """Creates the folder and its identity if they do not exist."""
        self.folder = folder
        check_folder(folder)
        self.stores = open_storage(stores or f"{address_of(folder)}/stores")
        check_root(self.stores)  # before anything is created
        make_folder(folder)
        self.own = own_storage(folder)
        self.id = self._identity()
        self.gone: set[Process] = set()
        """Holders of leases that were found to be gone, so that each is watched once."""
        self.used: set[str] = set()
        """The stores of this invocation so far, as NAME/FINGERPRINT."""
        self.computed: set[str] = set()
        """The stores among them that it computes itself, or has computed."""
        self.written: set[str] = set()
        """Names in the folder of the files that this invocation has written so far."""
        self.shown: set[str] = set()
        """The stores of the results that stand, until this invocation's work begins."""
        self.tell_stores: Callable[[], None] = lambda: None
        """Writes to summary.json which stores are used, while an invocation is at work."""
        self.work_begins: Callable[[], dict[str, Json]] = dict
        """While an invocation is at work: takes results.json away, since files that it names are
        written over from here on, and returns its content."""
        self._marked = False

    def mark(self) -> None:
        """Write the format file of the stores' root if it is missing; once per invocation."""
        if not self._marked:
            mark_root(self.stores)
            self._marked = True

    def settle(self) -> None:
        """Record where this workspace is; a copy of one that still exists gets its own identity.

        Otherwise the two would write their references over each other's, and gc would delete what
        only one of them refers to. A workspace that was moved goes on as it was.
        """
        refs = read_refs(self.stores, self.id)
        place = place_of(self.own, self.stores)
        if refs.place == place or not refs.places():
            return
        if is_copy(place, refs.place, self.id):
            last = undamaged(read_results, self.folder) or read_summary(self.folder) or {}
            used = last.get("stores", ())
            refs.stores.update(dict(name.split("/") for name in used))
            self.id = uuid.uuid4().hex
            self._write_refs(refs)
            body = seal({"format": FORMAT, "id": self.id})
            write_out(self.folder, "workspace.json", body)
            log.info(
                "%s is a copy of %s; from now on it refers to its stores under an identity of its "
                "own",
                self.folder,
                refs.place["workspace"],
            )
            return
        self._write_refs(refs)

    def refs(self) -> dict[str, str]:
        """Store name -> the fingerprint that this workspace last used."""
        return read_refs(self.stores, self.id).stores

    def sources(self) -> dict[str, str]:
        """Store name -> the complete store that was used before, from which rows are copied."""
        return read_refs(self.stores, self.id).sources

    def refer(self, store: str, fingerprint: str) -> None:
        """Record a reference to a store before its first shard, so that gc keeps it.

        The store that it replaces, if complete, is kept as a source until the invocation's end; one
        that this invocation uses too, such as scores of the same model in another scale, is kept
        beside it, as is one of the results that stand, until this invocation's work begins.
        """
        self.used.add(f"{store}/{fingerprint}")
        refs = read_refs(self.stores, self.id)
        before = refs.stores.get(store)
        if before == fingerprint:
            return
        place = f"{store}/{before}"
        if place in self.used | self.shown:
            refs.beside.add(place)
        if before is not None and place not in self.used:
            if read_manifest(self.stores, store, before) is not None:
                refs.sources[store] = before
        refs.stores[store] = fingerprint
        self._write_refs(refs)

    def forget_sources(self) -> None:
        """Give up the sources, at the end of a complete invocation, and what it did not use."""
        refs = read_refs(self.stores, self.id)
        beside = refs.beside & self.used
        if refs.sources or beside != refs.beside:
            self._write_refs(Refs(refs.stores, beside=beside))

    def _write_refs(self, refs: "Refs") -> None:
        body = {
            "format": FORMAT,
            "stores": refs.stores,
            "sources": refs.sources,
            "place": place_of(self.own, self.stores),
            "beside": sorted(refs.beside),
        }
        check_fence(self.folder)
        self.stores.replace(f"refs/{self.id}.json", seal(body))

    def leave_nonce(self, store: str, fingerprint: str) -> tuple[str, str]:
        """Name and content of a new file in the stores, which every worker must find there.

        There is one name per store, so that the next holder of its lease replaces the file of a
        killed one.
        """
        name = f"nonce/{work_label(store, fingerprint)}/word"
        content = secrets.token_hex(16)
        self.stores.replace(name, content.encode())
        return name, content

    def take_nonce_back(self, nonce: tuple[str, str]) -> None:
        """Delete the file, unless another invocation has left its own there."""
        name, content = nonce
        try:
            if self.stores.read(name) != content.encode():
                return
        except FileNotFoundError:
            return
        self.stores.delete(name)

    def write_summary(self, summary: Mapping[str, Json]) -> None:
        """Replace summary.json."""
        write_summary(self.folder, summary)

    def read_summary(self) -> dict[str, Json] | None:
        """The content of summary.json; see `summaries.read_summary`."""
        return read_summary(self.folder)

    def wrote(self, *paths: Path) -> None:
        """Record files, or folders with all their files, as written by this invocation."""
        for path in paths:
            files = (p for p in path.rglob("*") if p.is_file()) if path.is_dir() else (path,)
            self.written |= {file.relative_to(self.folder).as_posix() for file in files}

    def write(self, name: str, data: bytes) -> None:
        """Replace a file of the folder, and record it as written by this invocation."""
        replace_file(self.folder / name, data)
        self.wrote(self.folder / name)

    def remove(self, path: Path) -> None:
        """Delete a file of the folder that an earlier invocation wrote, in its bucket too."""
        remove_out(self.folder, path.relative_to(self.folder).as_posix())

    def part(self, folder: Path) -> "Workspace":
        """A workspace inside this one, with the same stores; what it uses, this one uses."""
        check_fence(self.folder)
        inner = Workspace(folder, self.stores.uri)
        inner.settle()
        inner.used, inner.computed = self.used, self.computed
        inner.tell_stores = self.tell_stores
        self.wrote(folder / "workspace.json")
        return inner

    def _identity(self) -> str:
        """The id in workspace.json, which is written if it is missing: as summary.json has it."""
        path = self.folder / "workspace.json"
        if not self.own.exists("workspace.json"):
            known = self._identity_in_summary()
            identity = known or uuid.uuid4().hex
            if (self.folder / "summary.json").exists():
                how = "that of summary.json" if known else "a new one, under which it has no stores"
                log.warning("%s was missing; its identity is now %s", path, how)
            self.own.create("workspace.json", seal({"format": FORMAT, "id": identity}))
        try:
            body = unseal_format(str(path), self.own.read("workspace.json"))
            check_shape(str(path), body, _IdentityShape)
            return str(body["id"])
        except CorruptError as error:
            remedy = "Restore the file, or name a new --out"
            if self._identity_in_summary() is not None:
                remedy = f"Delete {path} and run again: summary.json has the identity too"
            raise CorruptError(
                f"{path}: its bytes are not those that were written, so its stores are unknown. "
                f"{remedy}"
            ) from error

    def _identity_in_summary(self) -> str | None:
        try:
            return (read_summary(self.folder) or {}).get("workspace")
        except CorruptError:
            return None


class _IdentityShape(Shape):
    id: Place


class _RefsShape(Shape):
    stores: dict[Place, Place]
    sources: dict[Place, Place]
    place: dict[str, str]
    beside: list[str]


@dataclass(frozen=True, slots=True)
class Refs:
    """The stores that a workspace refers to: fingerprints by store name."""

    stores: dict[str, str] = field(default_factory=dict)
    """The stores that it used last."""
    sources: dict[str, str] = field(default_factory=dict)
    """The complete ones that it used before them, until an invocation is complete."""
    place: dict[str, str] = field(default_factory=dict)
    """Where the workspace and its stores were when this was written."""
    beside: set[str] = field(default_factory=set)
    """As NAME/FINGERPRINT: others of the same names that the same invocation used."""

    def older(self, store: str, fingerprint: str) -> list[str]:
        """Earlier versions of a store, other than this one, the newest first."""
        versions = dict.fromkeys(side.get(store) for side in (self.stores, self.sources))
        return [other for other in versions if other not in (None, fingerprint)]

    def places(self) -> set[str]:
        """All of them as NAME/FINGERPRINT."""
        named = {f"{a}/{b}" for side in (self.stores, self.sources) for a, b in side.items()}
        return named | self.beside


def read_refs(stores: Storage, workspace_id: str) -> Refs:
    """The references of a workspace; empty if it never made any."""
    name = f"refs/{workspace_id}.json"
    try:
        body = unseal_format(name, stores.read(name))
    except FileNotFoundError:
        return Refs()
    check_shape(name, body, _RefsShape)
    return Refs(
        dict(body["stores"]),
        dict(body["sources"]),
        dict(body["place"]),
        set(body["beside"]),
    )


def complete_store(workspace: Workspace, store: str, spec: StageSpec) -> Manifest | None:
    """The manifest of a complete store, to which the workspace refers from now on; None if none."""
    stores, fingerprint = workspace.stores, spec.fingerprint()
    manifest = read_manifest(stores, store, fingerprint)
    if manifest is None:
        return None
    workspace.mark()
    restore_spec(stores, store, spec)
    restore_plan(stores, manifest)
    workspace.refer(store, fingerprint)
    if wait_for_gc(stores, f"{store}/{fingerprint}"):
        return complete_store(workspace, store, spec)
    # A gc that saw no ref may also have ended just before this one looked for its mark.
    return read_manifest(stores, store, fingerprint)


def begun_store(
    workspace: Workspace, store: str, spec: StageSpec, planned: Sequence[Shard]
) -> Ledger:
    """The ledger of a store to be computed; its plan is written unless one stands.

    The workspace refers to it from now on. Its lease must be held.
    """
    stores, fingerprint = workspace.stores, spec.fingerprint()
    Ledger(stores, store, spec, planned)
    workspace.refer(store, fingerprint)
    workspace.computed.add(f"{store}/{fingerprint}")
    workspace.tell_stores()
    wait_for_gc(stores, f"{store}/{fingerprint}")
    # A gc that saw no ref has ended, here or before, and may have deleted the plan.
    ledger = Ledger(stores, store, spec, planned)
    restore_spec(stores, store, spec)
    return ledger
