"""Finds and deletes what nothing refers to, beside invocations that may begin to use it.

Only files written by raypipe are touched: folders NAME/FINGERPRINT whose spec.json has that
fingerprint, and in them files with known names; blobs under their hash; unfinished files.
Everything else is left alone.
"""

import errno
import re
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from raypipe.driver.generations.retire import files_of, unread_generations
from raypipe.driver.workspace import Workspace, read_refs
from raypipe.errors import CorruptError, RefusedError
from raypipe.names import ROOT_FOLDERS
from raypipe.storage.cleanup import doom, doomed_places, spare
from raypipe.storage.generations import held_stores
from raypipe.storage.holder import Life, label_is_dead
from raypipe.storage.lease import Lease, acquire, lease_state
from raypipe.storage.ledger import read_spec, work_label
from raypipe.storage.root import ROOT_FORMAT
from raypipe.storage.storage import Entry, Storage

SPARED_SECONDS = 24 * 3600.0
CLOCK = "gc/clock"
LEASE = "gc/lease.json"
_ORDER = (
    r"manifest\.json",
    r"steps/\d{7,}\.json",
    r"measurements/\d{7,}\.json",
    r"progress\.jsonl(\.lines/[^/]+)?",  # in a bucket each line is an object
    r"shards/\d{5,}\.json",
    r"quarantine\.parquet",
    r"attempts\.jsonl(\.lines/[^/]+)?",
    r"lease\.json\.d/\d{7}\.json",  # before lease.json, which says that they were released
    r"lease\.json",
    r"plan\.json",
    r"spec\.json",
)
"""A store's files in the order of deletion. If gc is killed after any of them, the store is
complete, or incomplete and resumable (its records name blobs that still exist), or absent. The
spec, which identifies a folder as a store, is deleted last."""
_NO_FILE = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)
"""Errors where there is no store. Storage that fails ends gc, since it says what is a store."""
_BLOB = re.compile(r"blobs/([0-9a-f]{2})/(\1[0-9a-f]{62})")


@dataclass
class Garbage:
    """Files that may be deleted, by the steps of the deletion, and their size."""

    generations: list[str] = field(default_factory=list)
    """Files of retired generations that nobody reads."""
    stores: dict[str, list[str]] = field(default_factory=dict)
    """The files of each store NAME/FINGERPRINT, in the order of deletion."""
    left_over: list[str] = field(default_factory=list)
    blobs: list[str] = field(default_factory=list)
    """Payloads; last, since until then the payload of every record exists."""
    num_bytes: int = 0
    strangers: list[str] = field(default_factory=list)
    """Files that are not raypipe's, or belong to stores with a damaged spec; they are left
    alone."""

    @property
    def names(self) -> list[str]:
        """All files, in the order of deletion."""
        of_stores = [name for files in self.stores.values() for name in files]
        return [*self.generations, *of_stores, *self.left_over, *self.blobs]


@dataclass
class _Folder:
    """One folder NAME/FINGERPRINT."""

    known: list[tuple[int, str]] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def find_garbage(workspace: Workspace, *, spared_seconds: float = SPARED_SECONDS) -> Garbage:
    """Files that no workspace, generation or live lease refers to and that are old enough.

    A store is as old as its newest file.
    """
    stores = workspace.stores
    garbage = Garbage(generations=files_of(stores, unread_generations(stores)))
    names = {entry.name: entry for entry in stores.entries()}
    folders = _folders(stores, names, garbage)
    places = {
        "/".join(parts[:2])
        for name in names
        if len(parts := name.split("/")) > 2 and parts[0] not in ROOT_FOLDERS
    }
    oldest = now(stores) - spared_seconds
    kept = kept_stores(stores, leaving=garbage.generations)
    doomed = {
        name: folder
        for name, folder in folders.items()
        if name not in kept
        and not at_work(stores, name)
        and all(_is_old(names[file], oldest) for _, file in folder.known)
    }
    for name, folder in doomed.items():
        garbage.stores[name] = [file for _, file in sorted(folder.known)]
    living = {work_label(*name.split("/")) for name in places if at_work(stores, name)}
    left = [n for n in names if _is_left_over(n, living) and _is_old(names[n], oldest)]
    garbage.left_over = left
    payloads: set[str] = set()
    for name, folder in folders.items():
        if name not in doomed:
            payloads |= named_payloads(stores, (file for _, file in folder.known))
    payloads |= named_payloads(stores, garbage.strangers)
    for name in names:
        blob = _BLOB.fullmatch(name)
        if blob and blob[2] not in payloads and _is_old(names[name], oldest):
            garbage.blobs.append(name)
    garbage.num_bytes = sum(names[name].num_bytes for name in garbage.names if name in names)
    return garbage


def now(stores: Storage) -> float:
    """The date that a file gets which is written now, by the clock that dates the others too.

    This machine's own clock may be another one, and wrong. Where nothing may be written it is good
    enough: nothing can be deleted there.
    """
    try:
        stores.replace(CLOCK, b"")
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            return time.time()
        raise
    entry = stores.entry(CLOCK)
    return time.time() if entry is None else entry.written


def _folders(stores: Storage, names: Iterable[str], garbage: Garbage) -> dict[str, _Folder]:
    """The real stores with their files; files outside any store are added to the strangers."""
    folders: dict[str, _Folder] = {}
    for name in names:
        parts = name.split("/")
        if parts[0] in ROOT_FOLDERS or name == ROOT_FORMAT:
            continue
        if len(parts) < 3:
            garbage.strangers.append(name)
            continue
        folder = folders.setdefault("/".join(parts[:2]), _Folder())
        inner = "/".join(parts[2:])
        place = next((i for i, form in enumerate(_ORDER) if re.fullmatch(form, inner)), None)
        if place is None:
            folder.unknown.append(name)
        else:
            folder.known.append((place, name))
    real = {name: folder for name, folder in folders.items() if _is_store(stores, name, folder)}
    for name, folder in folders.items():
        garbage.strangers += folder.unknown
        if name not in real:
            garbage.strangers += [file for _, file in folder.known]
    return real


def _is_store(stores: Storage, name: str, folder: _Folder) -> bool:
    """Whether a spec names it, or all it has is the lease of one who ended before the spec."""
    store, fingerprint = name.split("/")
    if not folder.unknown and all(_ORDER[place].startswith("lease") for place, _ in folder.known):
        return re.fullmatch("[0-9a-f]{32}", fingerprint) is not None
    try:
        return read_spec(stores, store, fingerprint).fingerprint() == fingerprint
    except (*_NO_FILE, CorruptError):
        return False


def kept_stores(stores: Storage, leaving: Collection[str] = ()) -> set[str]:
    """The stores that workspaces and generations name, but for generations that leave.

    Raises:
        CorruptError: a workspace's references cannot be read, and might name any store.
    """
    kept: set[str] = set()
    for name in stores.names("refs"):
        try:
            kept |= read_refs(stores, Path(name).stem).places()
        except CorruptError as error:
            raise CorruptError(
                f"{stores.uri}/{name} is damaged, so gc cannot tell which stores its workspace "
                "uses, and deletes nothing. Delete this file, and run the recipe of that workspace "
                "again before the next gc"
            ) from error
    return kept | {f"{a}/{b}" for a, b in held_stores(stores, leaving)}


def at_work(stores: Storage, folder: str) -> bool:
    """Whether a store's lease is held, or may be."""
    lease = lease_state(stores, f"{folder}/lease.json")
    return lease is not None and lease.life() is not Life.DEAD


def is_old(stores: Storage, name: str, oldest: float) -> bool:
    """Whether a file was last written before `oldest`; False if it is gone."""
    entry = stores.entry(name)
    return entry is not None and _is_old(entry, oldest)


def _is_old(entry: Entry, oldest: float) -> bool:
    return entry.written < oldest


def _is_left_over(name: str, living: set[str]) -> bool:
    """Whether an unfinished file's owner (a process, or the holder of a store's lease) is gone.

    `living` are the labels of the stores in use, made from their names; labels are compared, never
    parsed.
    """
    parts = name.split("/")
    if parts[0] not in ("nonce", "tmp") or len(parts) < 3:
        return False
    owner = parts[1]
    if parts[0] == "tmp" and owner.startswith("process-"):
        return label_is_dead(owner)
    return owner not in living


def named_payloads(stores: Storage, names: Iterable[str]) -> set[str]:
    """Hashes found as words in records and manifests; damaged files still protect their blobs."""
    hashes: set[str] = set()
    for name in names:
        if not name.endswith(".json"):
            continue
        data = stores.peek(name) or b""  # a training removes its older checkpoints
        hashes |= set(re.findall(r"[0-9a-f]{64}", data.decode(errors="replace")))
    return hashes


def delete(
    workspace: Workspace, garbage: Garbage, *, spared_seconds: float = SPARED_SECONDS
) -> list[str]:
    """The names that were deleted: what was found, unless somebody uses it by now.

    One gc works in a root at a time. Marks that a killed one left are taken away.

    Raises:
        RefusedError: another gc is at work.
    """
    stores = workspace.stores
    lease = acquire(stores, LEASE)
    try:
        return _delete(stores, garbage, lease, spared_seconds)
    finally:
        lease.release()


def _delete(stores: Storage, garbage: Garbage, lease: Lease, spared_seconds: float) -> list[str]:
    blobs = {f"blobs/{name.rpartition('/')[2]}": name for name in garbage.blobs}
    for place in doomed_places(stores):
        if place not in garbage.stores and place not in blobs:
            spare(stores, place)
    deleted = [*garbage.generations, *garbage.left_over]
    for name in deleted:
        stores.delete(name)
    for place in garbage.stores:
        doom(stores, place)
    kept = kept_stores(stores)
    used: set[str] = set()
    for place, files in garbage.stores.items():
        if place not in kept and not at_work(stores, place):
            deleted += _deleted(stores, files, lease)
        else:
            used |= named_payloads(stores, files)
        spare(stores, place)
    oldest = now(stores) - spared_seconds
    for place, name in blobs.items():
        doom(stores, place)
        if place.removeprefix("blobs/") not in used and is_old(stores, name, oldest):
            deleted += _deleted(stores, [name], lease)
        spare(stores, place)
    return deleted


def _deleted(stores: Storage, files: list[str], lease: Lease) -> list[str]:
    for name in files:
        if lease.lost:
            raise RefusedError(f"{stores.uri}: another gc has taken over; run again")
        stores.delete(name)
    return files
