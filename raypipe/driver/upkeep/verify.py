"""Compares every byte of a workspace and its stores with what was written."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from raypipe.driver.mirror import output_hash
from raypipe.driver.summaries import RESULTS, SUMMARY, has_results, read_results, read_summary
from raypipe.driver.workspace import Workspace, read_refs
from raypipe.errors import CorruptError
from raypipe.storage.generations import (
    ROOT,
    generation_records,
    record_numbers,
    retired_numbers,
    stores_of_record,
)
from raypipe.storage.ledger import (
    body_of_store,
    read_manifest,
    read_plan,
    read_spec,
)
from raypipe.storage.records import Json, Manifest, Record, Shard, unseal
from raypipe.storage.root import ROOT_FORMAT, root_damage
from raypipe.storage.storage import Storage

GONE = "no such file"
_OF_TRAINING = re.compile(r"(steps|measurements)/\d{7,}\.json")


@dataclass(frozen=True, slots=True)
class Damage:
    """A file whose bytes differ from those that were written, or that is gone."""

    name: str
    """Its name under the root of the stores, or in the workspace's folder."""
    problem: str
    remedy: str


def file_damage(folder: Path, summary: Mapping[str, Json]) -> Iterator[Damage]:
    """Every file that differs from the one that the summary names, or is gone."""
    for name, expected in summary.get("files", {}).items():
        path = folder / name
        actual = output_hash(folder, name) or "no such file"
        if actual != expected:
            problem = f"{path}: expected the SHA-256 {expected}, found {actual}"
            yield Damage(name, problem, f"delete {_whole(name)} and run again to write it")


def _whole(name: str) -> str:
    """The file, or the whole folder in which raypipe made it with others."""
    parts = name.split("/")
    for made, depth in (("python-docs", 1), ("triples", 2), ("topics", 2)):
        if made in parts[:-1]:
            return "the folder " + "/".join(parts[: parts.index(made) + depth])
    return name


class StorePlace(NamedTuple):
    """A store in a root of stores."""

    stores: Storage
    store: str
    fingerprint: str

    @property
    def folder(self) -> str:
        """NAME/FINGERPRINT."""
        return f"{self.store}/{self.fingerprint}"


def store_damage(place: StorePlace, *, complete: bool) -> Iterator[Damage]:
    """Every damaged or missing file of a store that is referred to; payloads are hashed completely.

    `complete`: the store was complete, so that a missing manifest is damage too.
    """
    folder = place.folder
    if not any(True for _ in place.stores.names(folder)):
        yield Damage(folder, "the store is referred to, found nothing of it", "run again")
        return
    yield from _spec(place)
    manifest, corrupt = None, False
    try:
        manifest = read_manifest(*place)
    except CorruptError as error:
        corrupt = True
        name = f"{folder}/manifest.json"
        yield Damage(name, str(error), f"delete {name} and run again")
    if complete and manifest is None and not corrupt:
        yield Damage(f"{folder}/manifest.json", GONE, "run again to publish the store")
    shards = () if manifest is None else tuple(record.shard for record in manifest.records)
    anew = f"delete the folder {folder} and run again to compute it"
    plan = f"{folder}/plan.json"
    try:
        shards = read_plan(*place)
    except FileNotFoundError:
        if manifest is not None or any(True for _ in place.stores.names(f"{folder}/shards")):
            yield Damage(plan, GONE, anew if manifest is None else "run again to write it")
    except CorruptError as error:
        mended = f"delete {plan} and run again to write it"
        yield Damage(plan, str(error), anew if manifest is None else mended)
    for shard in shards:
        yield from _shard(place, shard, manifest)
    yield from _training(place, complete)


def _spec(place: StorePlace) -> Iterator[Damage]:
    name = f"{place.folder}/spec.json"
    try:
        read_spec(*place)
    except FileNotFoundError:
        yield Damage(name, f"{name}: {GONE}", "run again to write it")
    except CorruptError as error:
        yield Damage(name, str(error), f"delete {name} and run again to write it")


def _shard(place: StorePlace, shard: Shard, manifest: Manifest | None) -> Iterator[Damage]:
    stores, folder = place.stores, place.folder
    name = f"{folder}/shards/{shard.index:05d}.json"
    both = f"delete {name} and {folder}/manifest.json and run again"
    try:
        body = body_of_store(name, stores.read(name), place.store, place.fingerprint)
        record = Record.from_json(body)
        if record.shard != shard:
            raise CorruptError(f"{name}: expected {shard}, found a record of {record.shard}")
    except FileNotFoundError:
        if manifest is not None:
            mended = f"delete {folder}/manifest.json too and run again"
            yield Damage(name, "the record is missing", mended)
        return
    except CorruptError as error:
        yield Damage(name, str(error), both)
        return
    blob = f"blobs/{record.sha256[:2]}/{record.sha256}"
    try:
        stores.check(record.sha256)
    except CorruptError as error:
        mended = f"delete {blob}, {name} and {folder}/manifest.json and run again"
        yield Damage(blob, f"{folder}, {record.shard}: {error}", mended)
    if manifest is not None and record not in manifest.records:
        yield Damage(name, "it is not the record that the manifest names", both)


def _training(place: StorePlace, complete: bool) -> Iterator[Damage]:
    """A training's measurements and the checkpoints from which it would resume."""
    for name in place.stores.names(place.folder):
        kind = _OF_TRAINING.fullmatch(name.removeprefix(f"{place.folder}/"))
        if kind is None:
            continue
        later = (
            f"delete {name} and all later files of steps/ and measurements/ there, and run again"
        )
        remedy = f"delete {name}: the training's record has its values" if complete else later
        try:
            body = unseal(name, place.stores.read(name))
            if kind[1] == "steps":
                place.stores.check(body["sha256"])
        except FileNotFoundError:
            continue  # a training at work removes its older checkpoints
        except CorruptError as error:
            yield Damage(name, str(error), remedy)


@dataclass
class _Referred:
    """The stores to verify, as (store, fingerprint)."""

    used: set[tuple[str, str]] = field(default_factory=set)
    sources: set[tuple[str, str]] = field(default_factory=set)
    completed: set[tuple[str, str]] = field(default_factory=set)
    """The stores that the last invocation used, if it was complete."""
    generations: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    """The records of the generations that name a store."""


def verify(workspace: Workspace) -> list[Damage]:
    """The damaged and missing files of a workspace, and of every store that it refers to.

    The sources from which an unfinished invocation copies rows are among them, and the stores of
    every generation in the root. docs/reliability.md lists which files are verified.
    """
    damages: dict[tuple[str, str], Damage] = {}  # a payload of two stores has two remedies
    for damage in _damages(workspace):
        damages.setdefault((damage.name, damage.remedy), damage)
    return list(damages.values())


def _damages(workspace: Workspace) -> Iterator[Damage]:
    folder, read, damaged = workspace.folder, {}, set()
    for name, reader in {SUMMARY: read_summary, RESULTS: read_results}.items():
        try:
            read[name] = reader(folder)
        except CorruptError as error:
            damaged.add(name)
            yield Damage(name, str(error), f"delete {name} and run again to write it")
    summary, results = read.get(SUMMARY), read.get(RESULTS)
    standing = results or {}
    if results is None and summary is not None and summary.get("status") == "complete":
        standing = summary
        if RESULTS not in damaged and has_results(summary):
            yield Damage(RESULTS, f"{folder / RESULTS}: {GONE}", "run again to write it")
    files = list(file_damage(folder, standing))
    yield from files
    refs = f"refs/{workspace.id}.json"
    if any(damage.name == "recipe.yaml" for damage in files) and not workspace.stores.exists(refs):
        return  # it says where the stores are, and they are not here
    problem = root_damage(workspace.stores)
    if problem is not None:
        yield Damage(ROOT_FORMAT, problem, f"delete {ROOT_FORMAT} and run again")
    referred = _Referred()
    if standing.get("status") == "complete":
        places = (place.split("/") for place in standing.get("stores", ()))
        referred.completed = {(store, fingerprint) for store, fingerprint in places}
        yield from _standing(workspace, standing)
    yield from _refs(workspace, referred)
    if summary is None and SUMMARY not in damaged and referred.used:
        yield Damage(SUMMARY, f"{folder / SUMMARY}: {GONE}", "run again to write it")
    yield from _generations(workspace, referred)
    yield from _stores(workspace, referred)


def _standing(workspace: Workspace, summary: Mapping[str, Json]) -> Iterator[Damage]:
    """The generations that stood at the end of a re-indexing and are gone without a mark.

    Where workspaces share the stores, another one may have retired the oldest.
    """
    name, stores = str(summary["recipe"]), workspace.stores
    standing = record_numbers(stores, name)
    missing = {*summary.get("generations", ())} - {*standing, *retired_numbers(stores, name)}
    if standing and any(Path(refs).stem != workspace.id for refs in stores.names("refs")):
        missing = {number for number in missing if number > standing[0]}
    for number in sorted(missing):
        record = f"{ROOT}/{name}/{number:07d}.json"
        yield Damage(record, f"{record}: {GONE}", "run `raypipe reindex` again")


def _refs(workspace: Workspace, referred: _Referred) -> Iterator[Damage]:
    parts, corrupt, missing = [workspace], False, []
    for path in sorted(workspace.folder.glob("collections/*/workspace.json")):
        try:  # the collections of a training have workspaces inside its own
            parts.append(Workspace(path.parent, workspace.stores.uri))
        except CorruptError as error:
            corrupt = True
            name = str(path.relative_to(workspace.folder))
            yield Damage(name, str(error), f"delete {name} and run again to write it")
    for part in parts:
        name = f"refs/{part.id}.json"
        try:
            refs = read_refs(part.stores, part.id)
        except CorruptError as error:
            corrupt = True
            yield Damage(name, str(error), f"delete {name} and run again to write it")
            continue
        if not refs.stores:
            missing.append(name)
        referred.used |= {*refs.stores.items()}
        pairs = (place.rpartition("/") for place in refs.beside)
        referred.used |= {(store, fingerprint) for store, _, fingerprint in pairs}
        referred.sources |= {*refs.sources.items()}
    lost = sorted(
        f"{store}/{fingerprint}" for store, fingerprint in referred.completed - referred.used
    )
    if lost and not corrupt:
        problem = (
            f"{len(lost)} stores that the last invocation used are in no refs, first {lost[0]}"
        )
        for name in missing or [f"refs/{workspace.id}.json"]:
            yield Damage(name, problem, "run again to write it")


def _generations(workspace: Workspace, referred: _Referred) -> Iterator[Damage]:
    for name in generation_records(workspace.stores):
        try:
            for place in stores_of_record(workspace.stores, name):
                referred.generations.setdefault(place, []).append(name)
        except CorruptError as error:
            remedy = (
                f"delete {name}, so that the generation before it becomes current, and run "
                "`raypipe reindex` again"
            )
            yield Damage(name, str(error), remedy)


def _stores(workspace: Workspace, referred: _Referred) -> Iterator[Damage]:
    stores = workspace.stores
    current = referred.used | referred.completed
    for place in sorted(current | referred.generations.keys()):
        complete = place in referred.completed or place in referred.generations
        for damage in store_damage(StorePlace(stores, *place), complete=complete):
            if place in current:
                yield damage
                continue
            records = ", ".join(referred.generations[place])
            older = f"run the recipe of {records} again; if its collection has changed since, "
            yield replace(damage, remedy=f"{older}delete {records}: it cannot be made again")
    for place in sorted(referred.sources - current - referred.generations.keys()):
        try:
            if read_manifest(stores, *place) is None:
                continue  # it was deleted since: nothing is copied from it
        except CorruptError:
            pass  # told with its remedy
        yield from store_damage(StorePlace(stores, *place), complete=False)
