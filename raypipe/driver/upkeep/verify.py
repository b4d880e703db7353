"""Compares every byte of a workspace's stores with its hash."""

from collections.abc import Iterator
from dataclasses import dataclass

from raypipe.driver.workspace import Workspace, read_refs
from raypipe.errors import CorruptError
from raypipe.storage.generations import generation_records, stores_of_record
from raypipe.storage.ledger import Ledger
from raypipe.storage.records import Manifest, Record
from raypipe.storage.root import ROOT_FORMAT, root_damage
from raypipe.storage.store_records import read_manifest, read_spec


@dataclass(frozen=True, slots=True)
class Damage:
    """A file whose bytes differ from those that were written."""

    name: str
    problem: str
    remedy: str


def verify(workspace: Workspace) -> list[Damage]:
    """The damaged records and payloads, by name, of every store that the workspace refers to.

    The sources from which an unfinished invocation copies rows are among them, and the stores of
    every generation in the root. The seals of the root's format file, specs, plans, shard records
    and manifests are checked; payloads are hashed completely.
    """
    found: dict[str, Damage] = {}
    problem = root_damage(workspace.stores)
    if problem is not None:
        found[ROOT_FORMAT] = Damage(ROOT_FORMAT, problem, f"delete {ROOT_FORMAT} and run again")
    referred = _referred(workspace)
    for path in sorted(workspace.folder.glob("collections/*/workspace.json")):
        try:  # the collections of a training have workspaces inside its own
            referred |= _referred(Workspace(path.parent, workspace.stores.uri))
        except CorruptError as error:
            name = str(path.relative_to(workspace.folder))
            found[name] = Damage(name, str(error), f"delete {name} and run again")
    for name in generation_records(workspace.stores):
        try:
            referred |= stores_of_record(workspace.stores, name)
        except CorruptError as error:
            remedy = f"delete {name}; the generation before it becomes current"
            found[name] = Damage(name, str(error), remedy)
    for store, fingerprint in sorted(referred):
        for damage in _store(workspace, store, fingerprint):
            found.setdefault(damage.name, damage)
    return list(found.values())


def _referred(workspace: Workspace) -> set[tuple[str, str]]:
    refs = read_refs(workspace.stores, workspace.id)
    return {*refs.stores.items(), *refs.sources.items()}


def _store(workspace: Workspace, store: str, fingerprint: str) -> Iterator[Damage]:
    folder = f"{store}/{fingerprint}"
    if not workspace.stores.exists(f"{folder}/plan.json"):
        return
    try:
        spec = read_spec(workspace.stores, store, fingerprint)
        ledger = Ledger(workspace.stores, store, spec)
    except FileNotFoundError:
        name = f"{folder}/spec.json"
        yield Damage(name, f"{name}: no such file", "run again to write it")
        return
    except CorruptError as error:
        remedy = f"delete the folder {folder} and run again to compute it"
        yield Damage(str(error).partition(":")[0], str(error), remedy)
        return
    manifest = None
    try:
        manifest = read_manifest(workspace.stores, store, fingerprint)
    except CorruptError as error:
        name = f"{folder}/manifest.json"
        yield Damage(name, str(error), f"delete {name} and run again")
    pending = {shard.index for shard in ledger.pending()}
    for shard in ledger.shards:
        name = f"{folder}/shards/{shard.index:05d}.json"
        if shard.index in pending:
            if manifest is not None:
                yield Damage(name, "the record is missing", f"delete {folder}/manifest.json too")
            continue
        try:
            record = ledger.record(shard)
        except CorruptError as error:
            remedy = f"delete {name} and {folder}/manifest.json and run again"
            yield Damage(name, str(error), remedy)
            continue
        yield from _payload(workspace, folder, name, record, manifest)


def _payload(
    workspace: Workspace, folder: str, name: str, record: Record, manifest: Manifest | None
) -> Iterator[Damage]:
    blob = f"blobs/{record.sha256[:2]}/{record.sha256}"
    try:
        workspace.stores.check(record.sha256)
    except CorruptError as error:
        remedy = f"delete {blob}, {name} and {folder}/manifest.json and run again"
        yield Damage(blob, f"{folder}, {record.shard}: {error}", remedy)
    if manifest is not None and record not in manifest.records:
        yield Damage(name, "it is not the record that the manifest names", f"delete {name}")
