"""Readers of the records in a store's folder other than its shards; `ledger` writes them."""

from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator, Field

from raypipe.errors import CorruptError
from raypipe.shapes import Count, Place, Shape, check_shape
from raypipe.storage.records import (
    FORMAT,
    Json,
    Manifest,
    Shard,
    seal,
    unseal,
    unseal_format,
)
from raypipe.storage.spec import SpecShape, StageSpec
from raypipe.storage.storage import Storage


def _ordered(numbers: list[int]) -> list[int]:
    if numbers[1] > numbers[2] or numbers[3] > numbers[4]:
        raise ValueError("a range ends before it starts")
    return numbers


_Numbers = Annotated[list[Count], Field(min_length=5, max_length=5), AfterValidator(_ordered)]


class PlanShape(Shape):
    """The body of plan.json."""

    shards: list[_Numbers]


class RecordShape(Shape):
    """The body of a shard's record."""

    class Facts(Shape):
        """The facts that publishing reads."""

        skipped_rows: list[Count] = []

    shard: _Numbers
    sha256: Place
    num_bytes: Count
    facts: Facts


class ManifestShape(Shape):
    """The body of manifest.json."""

    store: str
    fingerprint: str
    records: list[RecordShape]
    numerics: list[str]
    skipped_rows: list[Count]


def read_manifest(storage: Storage, store: str, fingerprint: str) -> Manifest | None:
    """The manifest of a store; None while the store is incomplete.

    Raises:
        CorruptError: the bytes are damaged or belong to another store.
        InputError: another version of raypipe published it, in another format.
    """
    name = f"{store}/{fingerprint}/manifest.json"
    try:
        data = storage.read(name)
    except FileNotFoundError:
        return None
    body = body_of_store(name, data, store, fingerprint)
    check_shape(name, body, ManifestShape)
    return Manifest.from_json(body)


def read_spec(storage: Storage, store: str, fingerprint: str) -> StageSpec:
    """The spec that a store was planned with.

    Raises:
        FileNotFoundError: nothing was planned under this fingerprint.
        CorruptError: the bytes are damaged or belong to another store.
    """
    name = f"{store}/{fingerprint}/spec.json"
    body = unseal(name, storage.read(name))
    check_shape(name, body, SpecShape)
    spec = StageSpec.from_json(body)
    if spec.fingerprint() != fingerprint:
        raise CorruptError(f"{name}: expected the spec of {fingerprint}, found another store's")
    return spec


def find_spec(storage: Storage, store: str, fingerprint: str) -> StageSpec | None:
    """Like `read_spec`, but None if nothing was planned under this fingerprint."""
    try:
        return read_spec(storage, store, fingerprint)
    except FileNotFoundError:
        return None


def restore_spec(storage: Storage, store: str, spec: StageSpec) -> None:
    """Write the spec of an existing store again if it was deleted."""
    name = f"{store}/{spec.fingerprint()}/spec.json"
    if not storage.exists(name):
        storage.create(name, seal(spec.to_json()))


def plan_body(store: str, fingerprint: str, shards: Iterable[Shard]) -> dict[str, Json]:
    """The body of plan.json."""
    mine = {"format": FORMAT, "store": store, "fingerprint": fingerprint}
    return {**mine, "shards": [shard.to_json() for shard in shards]}


def read_plan(storage: Storage, store: str, fingerprint: str) -> tuple[Shard, ...]:
    """The planned shards of a store.

    Raises:
        FileNotFoundError: nothing was planned.
        CorruptError: the bytes are damaged or belong to another store.
        InputError: another version of raypipe planned it, in another format.
    """
    name = f"{store}/{fingerprint}/plan.json"
    body = body_of_store(name, storage.read(name), store, fingerprint)
    check_shape(name, body, PlanShape)
    return tuple(Shard(*numbers) for numbers in body["shards"])


def restore_plan(storage: Storage, manifest: Manifest) -> None:
    """Write the plan of a complete store again if it was deleted."""
    store, fingerprint = manifest.store, manifest.fingerprint
    name = f"{store}/{fingerprint}/plan.json"
    if not storage.exists(name):
        shards = (record.shard for record in manifest.records)
        storage.create(name, seal(plan_body(store, fingerprint, shards)))


def work_label(store: str, fingerprint: str) -> str:
    """The folder name for a store's unfinished files, in `tmp` and in `nonce`."""
    return f"{store}-{fingerprint}"


def body_of_store(name: str, data: bytes, store: str, fingerprint: str) -> dict[str, Json]:
    """The body of a record that names its store.

    Raises:
        CorruptError: the bytes are damaged or belong to another store.
        InputError: another version of raypipe wrote it, in another format.
    """
    body = unseal_format(name, data)
    found = (body.get("store"), body.get("fingerprint"))
    if found != (store, fingerprint):
        raise CorruptError(
            f"{name}: expected a record of {store}/{fingerprint}, found one of "
            f"{found[0]}/{found[1]}. Delete this one file and run again to remake it"
        )
    return body
