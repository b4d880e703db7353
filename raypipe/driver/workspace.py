"""A workspace folder: its identity, its summary and its references to stores."""

import json
import secrets
import uuid
from collections.abc import Mapping
from pathlib import Path

from raypipe.errors import CorruptError, InputError
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
        return read_refs(self.stores, self.id)

    def sources(self) -> dict[str, str]:
        """By store name, the complete store that was used before, from which rows are copied."""
        return read_refs(self.stores, self.id, "sources")

    def refer(self, store: str, fingerprint: str) -> None:
        """Record a reference to a store before its first shard, so that gc keeps it.

        The store that it replaces, if complete, is kept as a source until the invocation's end.
        """
        refs, sources = self.refs(), self.sources()
        before = refs.get(store)
        if before == fingerprint:
            return
        if before is not None and read_manifest(self.stores, store, before) is not None:
            sources[store] = before
        refs[store] = fingerprint
        self._write_refs(refs, sources)

    def older(self, store: str, fingerprint: str) -> list[str]:
        """Fingerprints of a store's earlier versions, other than this one, the newest first."""
        found = (refs.get(store) for refs in (self.refs(), self.sources()))
        return [other for other in dict.fromkeys(found) if other not in (None, fingerprint)]

    def forget_sources(self) -> None:
        """Give up the sources, at the end of a complete invocation."""
        if self.sources():
            self._write_refs(self.refs(), {})

    def _write_refs(self, refs: Mapping[str, str], sources: Mapping[str, str]) -> None:
        body = {"format": FORMAT, "stores": dict(refs), "sources": dict(sources)}
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
        replace_file(self.folder / "summary.json", json.dumps(summary, indent=1).encode() + b"\n")

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
        except ValueError as error:
            raise CorruptError(f"{path}: expected a JSON object, found {error}") from error

    def _identity(self) -> str:
        path = self.folder / "workspace.json"
        if not path.exists():
            self.own.create("workspace.json", seal({"format": FORMAT, "id": uuid.uuid4().hex}))
        try:
            identity: str = unseal_format(str(path), path.read_bytes())["id"]
        except CorruptError as error:
            raise CorruptError(
                f"{path}: its bytes are not those that were written, so its stores are unknown. "
                "Restore the file, or name a new --out"
            ) from error
        return identity


def _refuse_file(folder: Path) -> None:
    standing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not standing.is_dir():
        raise InputError(f"{folder}: expected a folder, found the file {standing}; name another")


def read_refs(stores: Storage, workspace_id: str, part: str = "stores") -> dict[str, str]:
    """The `stores` or `sources` that a workspace refers to, by name; empty if there are none."""
    name = f"refs/{workspace_id}.json"
    try:
        return dict(unseal_format(name, stores.read(name))[part])
    except FileNotFoundError:
        return {}
