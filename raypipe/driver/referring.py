"""A workspace refers to a store that it is about to use, beside a gc that may be deleting it."""

from collections.abc import Sequence

from raypipe.driver.workspace import Workspace
from raypipe.storage.cleanup import wait_for_gc
from raypipe.storage.ledger import Ledger, read_manifest, restore_plan, restore_spec
from raypipe.storage.records import Manifest, Shard
from raypipe.storage.spec import StageSpec


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
