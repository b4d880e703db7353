"""A workspace folder: its identity, its summary, and what it refers to in the stores."""

import json
import secrets
import uuid
from collections.abc import Mapping
from pathlib import Path

from raypipe.errors import CorruptError, InputError
from raypipe.files import replace_file
from raypipe.storage.opening import open_storage
from raypipe.storage.records import FORMAT, Json, seal, unseal_format
from raypipe.storage.root import check_root, mark_root
from raypipe.storage.storage import Storage
from raypipe.storage.store_records import work_label

LEASE = "lease.json"


class Workspace:
    """A folder that an invocation writes to; relocatable, its stores may be shared with others."""

    def __init__(self, folder: Path, stores: str | None = None) -> None:
        """Creates the folder and its identity where they are new."""
        self.folder = folder
        _refuse_file(folder)
        self.stores = open_storage(stores or str(folder / "stores"))
        check_root(self.stores)  # before anything is made
        folder.mkdir(parents=True, exist_ok=True)
        self.own = open_storage(str(folder))
        self.id = self._identity()
        self._marked = False

    def mark(self) -> None:
        """Write the format of the stores' root, where it does not stand; once an invocation."""
        if not self._marked:
            mark_root(self.stores)
            self._marked = True

    def refs(self) -> dict[str, str]:
        """Store name -> fingerprint that this workspace last used."""
        return read_refs(self.stores, self.id)

    def refer(self, store: str, fingerprint: str) -> None:
        """Note a store before its first shard, so that gc spares it; no write if it is noted."""
        refs = self.refs()
        if refs.get(store) != fingerprint:
            refs[store] = fingerprint
            self.stores.replace(f"refs/{self.id}.json", seal({"format": FORMAT, "stores": refs}))

    def leave_nonce(self, store: str, fingerprint: str) -> tuple[str, str]:
        """Name and content of a fresh file in the stores that every worker must find there.

        One name a store, so that the next holder of its lease replaces what a killed one left.
        """
        name = f"nonce/{work_label(store, fingerprint)}/word"
        content = secrets.token_hex(16)
        self.stores.replace(name, content.encode())
        return name, content

    def write_summary(self, summary: Mapping[str, Json]) -> None:
        """Replace summary.json."""
        replace_file(self.folder / "summary.json", json.dumps(summary, indent=1).encode() + b"\n")

    def read_summary(self) -> dict[str, Json] | None:
        """summary.json, None if there is none.

        Raises:
            CorruptError: it is no JSON object.
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
                f"{path}: its bytes are not those that were written, so nobody knows which stores "
                "are its own. Put the file back, or name a new --out"
            ) from error
        return identity


def _refuse_file(folder: Path) -> None:
    standing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not standing.is_dir():
        raise InputError(f"{folder}: expected a folder, found the file {standing}; name another")


def read_refs(stores: Storage, workspace_id: str) -> dict[str, str]:
    """What a workspace refers to; empty if it never did."""
    name = f"refs/{workspace_id}.json"
    try:
        return dict(unseal_format(name, stores.read(name))["stores"])
    except FileNotFoundError:
        return {}
