"""A workspace folder: its identity, its summary and its references to stores."""

import json
import secrets
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from raypipe.errors import CorruptError, InputError
from raypipe.shapes import Place, Shape, check_shape
from raypipe.storage.files import make_folder, replace_file
from raypipe.storage.holder import Process
from raypipe.storage.places.opening import open_storage
from raypipe.storage.records import FORMAT, Json, seal, unseal_format
from raypipe.storage.root import check_root, mark_root
from raypipe.storage.storage import Storage
from raypipe.storage.store_records import read_manifest, work_label

LEASE = "lease.json"


class Workspace:
    """The folder that an invocation writes to. It can be moved, and may share its stores."""

    def __init__(self, folder: Path, stores: str | None = None) -> None:
        """Creates the folder and its identity if they do not exist."""
        self.folder = folder
        _refuse_file(folder)
        self.stores = open_storage(stores or str(folder / "stores"))
        check_root(self.stores)  # before anything is created
        make_folder(folder)
        self.own = open_storage(str(folder))
        self.id = self._identity()
        self.gone: set[Process] = set()
        """Holders of leases that were found to be gone, so that each is watched once."""
        self._marked = False

    def mark(self) -> None:
        """Write the format file of the stores' root if it is missing; once per invocation."""
        if not self._marked:
            mark_root(self.stores)
            self._marked = True

    def refs(self) -> dict[str, str]:
        """By store name, the fingerprint that this workspace last used."""
        return read_refs(self.stores, self.id).stores

    def sources(self) -> dict[str, str]:
        """By store name, the complete store that was used before, from which rows are copied."""
        return read_refs(self.stores, self.id).sources

    def refer(self, store: str, fingerprint: str) -> None:
        """Record a reference to a store before its first shard, so that gc keeps it.

        The store that it replaces, if complete, is kept as a source until the invocation's end.
        """
        refs = read_refs(self.stores, self.id)
        before = refs.stores.get(store)
        if before == fingerprint:
            return
        if before is not None and read_manifest(self.stores, store, before) is not None:
            refs.sources[store] = before
        refs.stores[store] = fingerprint
        self._write_refs(refs)

    def forget_sources(self) -> None:
        """Give up the sources, at the end of a complete invocation."""
        refs = read_refs(self.stores, self.id)
        if refs.sources:
            self._write_refs(Refs(refs.stores))

    def _write_refs(self, refs: "Refs") -> None:
        body = {"format": FORMAT, "stores": refs.stores, "sources": refs.sources}
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
            if self.stores.read(name).decode() != content:
                return
        except FileNotFoundError:
            return
        self.stores.delete(name)

    def write_summary(self, summary: Mapping[str, Json]) -> None:
        """Replace summary.json."""
        write_summary(self.folder, summary)

    def read_summary(self) -> dict[str, Json] | None:
        """The content of summary.json; None if there is none.

        Raises:
            CorruptError: it is not a JSON object.
        """
        path = self.folder / "summary.json"
        if not path.exists():
            return None
        try:
            return dict(json.loads(path.read_bytes()))
        except (ValueError, TypeError, RecursionError) as error:
            raise CorruptError(f"{path}: expected a JSON object, found {error}") from error

    def _identity(self) -> str:
        path = self.folder / "workspace.json"
        if not path.exists():
            self.own.create("workspace.json", seal({"format": FORMAT, "id": uuid.uuid4().hex}))
        try:
            body = unseal_format(str(path), path.read_bytes())
            check_shape(str(path), body, _IdentityShape)
        except CorruptError as error:
            raise CorruptError(
                f"{path}: its bytes are not those that were written, so its stores are unknown. "
                "Restore the file, or name a new --out"
            ) from error
        identity: str = body["id"]
        return identity


class _IdentityShape(Shape):
    id: Place


class _RefsShape(Shape):
    stores: dict[Place, Place]
    sources: dict[Place, Place]


def new_summary(recipe: str | None) -> dict[str, Json]:
    """The summary of an invocation that begins, with an id of its own."""
    run = uuid.uuid4().hex[:12]
    state = {"status": "running", "exit": None, "reason": None}
    return {"format": 1, **state, "run": run, "recipe": recipe}


def write_summary(folder: Path, summary: Mapping[str, Json]) -> None:
    """Replace summary.json in a workspace's folder."""
    replace_file(folder / "summary.json", json.dumps(summary, indent=1).encode() + b"\n")


def _refuse_file(folder: Path) -> None:
    standing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not standing.is_dir():
        raise InputError(f"{folder}: expected a folder, found the file {standing}; name another")


@dataclass(frozen=True, slots=True)
class Refs:
    """The stores that a workspace refers to: fingerprints by store name."""

    stores: dict[str, str] = field(default_factory=dict)
    """Those that it used last."""
    sources: dict[str, str] = field(default_factory=dict)
    """The complete ones that it used before them, until an invocation is complete."""

    def older(self, store: str, fingerprint: str) -> list[str]:
        """Earlier versions of a store, other than this one, the newest first."""
        found = dict.fromkeys(side.get(store) for side in (self.stores, self.sources))
        return [other for other in found if other not in (None, fingerprint)]

    def places(self) -> set[str]:
        """All of them as NAME/FINGERPRINT."""
        return {f"{a}/{b}" for side in (self.stores, self.sources) for a, b in side.items()}


def read_refs(stores: Storage, workspace_id: str) -> Refs:
    """What a workspace refers to; nothing if it never did."""
    name = f"refs/{workspace_id}.json"
    try:
        body = unseal_format(name, stores.read(name))
    except FileNotFoundError:
        return Refs()
    check_shape(name, body, _RefsShape)
    return Refs(dict(body["stores"]), dict(body["sources"]))
