"""The stores of earlier invocations from which rows can be copied."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import count

from raypipe.driver.workspace import Workspace, read_refs
from raypipe.names import StoreName
from raypipe.storage.generations import Generation
from raypipe.storage.ledger import find_spec, read_manifest
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored


def older_stores(
    workspace: Workspace, base: Generation | None, name: StoreName, spec: StageSpec
) -> list[Stored]:
    """Complete stores of this name and of the same settings, the most likely source first.

    Those of the current generation come before what this workspace used last, and that before what
    it used until then. Of a growing table, the older stores of every part are given.
    """
    stores, found = workspace.stores, []
    current = dict(base.stores) if base is not None else {}
    refs = read_refs(stores, workspace.id)
    for store in map(str, _parts(name, current.keys() | refs.stores.keys())):
        fingerprints = [current[store]] if store in current else []
        fingerprints += refs.older(store, spec.fingerprint())
        for fingerprint in dict.fromkeys(fingerprints):
            manifest = read_manifest(stores, store, fingerprint)
            settings = find_spec(stores, store, fingerprint)
            if (
                manifest is not None
                and settings is not None
                and settings.reuse_key == spec.reuse_key
            ):
                found.append(Stored(stores, manifest))
    return found


def _parts(name: StoreName, known: Collection[str]) -> Iterator[StoreName]:
    """The store itself; of a growing table every part that is known."""
    if name.number is None:
        yield name
        return
    for number in count(1):
        part = replace(name, number=number)
        if str(part) not in known:
            return
        yield part
