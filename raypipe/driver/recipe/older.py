"""The stores of earlier invocations from which rows can be copied."""

import re
from collections.abc import Iterator
from contextlib import suppress

from raypipe.driver.workspace import Refs, read_refs
from raypipe.errors import RaypipeError
from raypipe.names import Role, StoreName
from raypipe.storage.generations import Generation
from raypipe.storage.ledger import find_spec, read_manifest
from raypipe.storage.spec import StageSpec
from raypipe.storage.storage import Storage
from raypipe.storage.store import Stored


def older_stores(
    stores: Storage, own: str | None, base: Generation | None, name: StoreName, spec: StageSpec
) -> list[Stored]:
    """Complete stores of this name and of the same settings, the most likely source first.

    Those of the current generation come before what this workspace used last, and that before what
    it used until then. Scores are copied from those of every stage of the query set, and of every
    workspace of the same root, own ones first.

    Args:
        stores: the root.
        own: the id of the workspace, if there is one.
        base: the current generation.
        name: of the store to fill.
        spec: what it will hold.
    """
    found, current = [], dict(base.stores) if base is not None else {}
    refs = Refs() if own is None else read_refs(stores, own)
    places = [(str(name), current[str(name)])] if str(name) in current else []
    places += [(str(name), each) for each in refs.older(str(name), "")]
    if name.role in (Role.SCORES, Role.FILLED):
        places += [place for each in (current, refs.stores, refs.sources) for place in each.items()]
        for others in _other_refs(stores, own):
            places += [*others.stores.items(), *others.sources.items()]
        scores = re.compile(rf"(scores|filled)@[^.]+\.{name.query_set}(\.\d+)?")  # once in parts
        places = [place for place in places if scores.fullmatch(place[0])]
    itself = str(name), spec.fingerprint()
    for store, fingerprint in dict.fromkeys(place for place in places if place != itself):
        manifest = read_manifest(stores, store, fingerprint)
        settings = find_spec(stores, store, fingerprint)
        if manifest is not None and settings is not None and settings.reuse_key == spec.reuse_key:
            found.append(Stored(stores, manifest))
    return found


def _other_refs(stores: Storage, own: str | None) -> Iterator[Refs]:
    """What the other workspaces of the same stores refer to; a damaged file is left to verify."""
    for file in sorted(stores.names("refs/")):
        other = file.removeprefix("refs/").removesuffix(".json")
        if other != own:
            with suppress(RaypipeError):  # damaged, or of another format
                yield read_refs(stores, other)
