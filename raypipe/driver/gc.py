"""Stores and blobs that nobody refers to any more."""

import json
import time
from dataclasses import dataclass, field
from pathlib import Path

from raypipe.driver.workspace import Workspace, read_refs
from raypipe.errors import InputError
from raypipe.storage.holder import Life
from raypipe.storage.lease import standing
from raypipe.storage.posix import PosixStorage
from raypipe.storage.records import unseal

SPARED_SECONDS = 24 * 3600.0


@dataclass
class Garbage:
    """Names that may go, and what they weigh; manifests stand first, so that a store that is
    half deleted reads as incomplete and never as complete."""

    names: list[str] = field(default_factory=list)
    num_bytes: int = 0


def find_garbage(workspace: Workspace, *, spared_seconds: float = SPARED_SECONDS) -> Garbage:
    """What no ref of any workspace, no generation and no live lease holds, and is not young.

    Raises:
        InputError: the stores are no folder: a bucket's lifecycle rules are its own.
    """
    stores = workspace.stores
    if not isinstance(stores, PosixStorage):
        raise InputError(f"{stores.uri}: gc needs stores in a folder")
    kept = _kept(stores)
    names = list(stores.names(""))
    folders = {tuple(n.split("/")[:2]) for n in names if n.count("/") >= 2 and _is_store(n)}
    doomed = {f"{a}/{b}" for a, b in folders if (a, b) not in kept}
    doomed = {d for d in doomed if not _at_work(stores, d)}
    garbage = Garbage()
    blobs: set[str] = set()
    for name in names:
        folder = "/".join(name.split("/")[:2])
        if not _is_store(name) or folder not in doomed:
            blobs |= _blobs(stores.root / name, name)
    oldest = time.time() - spared_seconds
    for name in sorted(names, key=lambda n: (not n.endswith("manifest.json"), n)):
        path = stores.root / name
        in_store = _is_store(name) and "/".join(name.split("/")[:2]) in doomed
        is_blob = name.startswith("blobs/") and name.split("/")[-1] not in blobs
        unfinished = name.startswith(("tmp/", "nonce/"))
        if (in_store or is_blob or unfinished) and path.stat().st_mtime < oldest:
            garbage.names.append(name)
            garbage.num_bytes += path.stat().st_size
    return garbage


def delete(workspace: Workspace, garbage: Garbage) -> None:
    """Remove what was found."""
    for name in garbage.names:
        workspace.stores.delete(name)


def _kept(stores: PosixStorage) -> set[tuple[str, str]]:
    kept: set[tuple[str, str]] = set()
    for name in stores.names("refs"):
        kept |= set(read_refs(stores, Path(name).stem).items())
    for name in stores.names("generations"):
        kept |= set(dict(unseal(name, stores.read(name))["stores"]).items())
    return kept


def _is_store(name: str) -> bool:
    return not name.startswith(("blobs/", "refs/", "generations/", "tmp/", "nonce/"))


def _at_work(stores: PosixStorage, folder: str) -> bool:
    lease = standing(stores, f"{folder}/lease.json")
    return lease is not None and lease.life() is not Life.DEAD


def _blobs(path: Path, name: str) -> set[str]:
    """Hashes that a kept record names; read without trust, a damaged record keeps its words."""
    if "/shards/" not in name:
        return set()
    try:
        return {json.loads(path.read_bytes())["body"]["sha256"]}
    except (ValueError, KeyError, TypeError):
        words = path.read_text(errors="replace").replace('"', " ").split()
        return {word for word in words if len(word) == 64}
