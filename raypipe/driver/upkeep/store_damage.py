"""Compares the files of one store with what was committed."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from raypipe.driver.upkeep.damage import Damage
from raypipe.errors import CorruptError
from raypipe.storage.ledger import (
    body_of_store,
    read_manifest,
    read_plan,
    read_spec,
)
from raypipe.storage.records import Manifest, Record, Shard, unseal
from raypipe.storage.storage import Storage

GONE = "no such file"
_OF_TRAINING = re.compile(r"(steps|measurements)/\d{7,}\.json")


class Place(NamedTuple):
    """A store in a root of stores."""

    stores: Storage
    store: str
    fingerprint: str

    @property
    def folder(self) -> str:
        """NAME/FINGERPRINT."""
        return f"{self.store}/{self.fingerprint}"


def store_damage(place: Place, *, complete: bool) -> Iterator[Damage]:
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


def _spec(place: Place) -> Iterator[Damage]:
    name = f"{place.folder}/spec.json"
    try:
        read_spec(*place)
    except FileNotFoundError:
        yield Damage(name, f"{name}: {GONE}", "run again to write it")
    except CorruptError as error:
        yield Damage(name, str(error), f"delete {name} and run again to write it")


def _shard(place: Place, shard: Shard, manifest: Manifest | None) -> Iterator[Damage]:
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


def _training(place: Place, complete: bool) -> Iterator[Damage]:
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
