"""A hub's model in the stores, fetched once for a commit: one shard for each of its files."""

from pathlib import Path

from raypipe.driver.models import library
from raypipe.driver.workspace import Workspace
from raypipe.models.hub.held import HeldFiles
from raypipe.models.hub.linked import linked_folder
from raypipe.names import of_hub
from raypipe.storage.cleanup import wait_for_gc
from raypipe.storage.ledger import Ledger, read_manifest, restore_plan, restore_spec
from raypipe.storage.records import Manifest, Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.storage import Storage

SEMANTICS = 2
"""Increase this when other files are fetched of the same commit."""


def spec_of(repository: str, commit: str) -> StageSpec:
    """What names the store: a commit never changes."""
    return StageSpec(
        "hub", SEMANTICS, {"repository": repository, "commit": commit}, produces="model"
    )


def find(stores: Storage, repository: str, commit: str) -> Manifest | None:
    """The files that the stores have of a commit; None if it was not fetched into them."""
    fingerprint = spec_of(repository, commit).fingerprint()
    return read_manifest(stores, str(of_hub(repository)), fingerprint)


def folder_of(stores: Storage, repository: str, commit: str, manifest: Manifest) -> Path:
    """A folder of this node with links to the files.

    Raises:
        CorruptError: one of them is not as it was fetched.
    """
    files = {str(record.facts["file"]): record.sha256 for record in manifest.records}
    return linked_folder(HeldFiles(stores.uri, repository, commit, files))


def ensure(workspace: Workspace, repository: str, commit: str) -> tuple[Manifest, bool]:
    """The files in the workspace's stores, and whether they were fetched now.

    Raises:
        InputError: see `library.fetched`.
        CorruptError: what was fetched before is damaged.
    """
    stores, store, spec = workspace.stores, str(of_hub(repository)), spec_of(repository, commit)
    fingerprint = spec.fingerprint()
    manifest = find(stores, repository, commit)
    if manifest is None:
        files = library.fetched(repository, commit)
        workspace.mark()
        shards = [Shard(number, number, number + 1) for number in range(len(files))]
        ledger = Ledger(stores, store, spec, shards)
        workspace.refer(store, fingerprint)
        wait_for_gc(stores, f"{store}/{fingerprint}")
        ledger = Ledger(stores, store, spec, shards)  # a gc that saw no ref may have deleted it
        names = list(files)
        for shard in ledger.pending():
            name = names[shard.index]
            ledger.commit(shard, files[name], {"file": name})
        ledger.storage.sweep()
        return ledger.publish(), True
    workspace.mark()
    restore_spec(stores, store, spec)
    restore_plan(stores, manifest)
    workspace.refer(store, fingerprint)
    waited = wait_for_gc(stores, f"{store}/{fingerprint}")
    # A gc that saw no ref may also have ended just before this one looked for its mark.
    if waited or find(stores, repository, commit) is None:
        return ensure(workspace, repository, commit)
    return manifest, False
