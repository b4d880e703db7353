"""The stores of earlier invocations from which rows can be copied."""

from raypipe.driver.workspace import Workspace, read_refs
from raypipe.names import Role, StoreName
from raypipe.storage.generations import Generation
from raypipe.storage.spec import StageSpec
from raypipe.storage.store_records import find_spec, read_manifest
from raypipe.storage.stored import Stored


def older_stores(
    workspace: Workspace, base: Generation | None, name: StoreName, spec: StageSpec
) -> list[Stored]:
    """Complete stores of this name and of the same settings, the most likely source first.

    Those of the current generation come before what this workspace used last, and that before what
    it used until then. Scores are copied from those of every stage.
    """
    stores, found = workspace.stores, []
    current = dict(base.stores) if base is not None else {}
    refs = read_refs(stores, workspace.id)
    names = [str(name)]
    if name.role is Role.SCORES:
        mark = f"{Role.SCORES.value}@"
        known = dict.fromkeys((*current, *refs.stores, *refs.sources))
        names += [other for other in known if other.startswith(mark) and other != str(name)]
    for store in names:
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
