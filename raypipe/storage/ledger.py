"""The ledger of one store: plan, pending, commit, publish. It uses neither Ray nor torch.

The records in a store's folder other than its shards are read here too. Its log is part of no
hash: one JSON object per line; a crash may truncate a line.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import AfterValidator, Field

from raypipe.errors import CorruptError, IncompleteError, InputError, LimitError
from raypipe.storage.records import (
    FORMAT,
    Count,
    Json,
    Manifest,
    Place,
    Record,
    Shape,
    Shard,
    check_shape,
    hash_file,
    seal,
    unseal,
    unseal_format,
)
from raypipe.storage.spec import SpecShape, StageSpec
from raypipe.storage.storage import Storage


def events(data: bytes) -> list[dict[str, Any]]:
    """The objects of the complete lines, in order; truncated lines are skipped."""
    return [event for line in data.splitlines() if (event := _parsed(line)) is not None]


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None


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
    place = (body.get("store"), body.get("fingerprint"))
    if place != (store, fingerprint):
        raise CorruptError(
            f"{name}: expected a record of {store}/{fingerprint}, found one of "
            f"{place[0]}/{place[1]}. Delete this one file and run again to remake it"
        )
    return body


class Ledger:
    """The progress of one store, in small records that are created once.

    A shard is done when its record exists; the store is complete when its manifest exists.
    Both are created exclusively: of two writers the first wins, and the bytes are the same.
    """

    def __init__(
        self, storage: Storage, store: str, spec: StageSpec, shards: Sequence[Shard] | None = None
    ) -> None:
        """Create the plan, or adopt the existing one with its shards.

        Raises:
            IncompleteError: there is no plan and no shards were given.
            CorruptError: a record's bytes are damaged, or it belongs to another store.
            InputError: another version of raypipe planned it, in another format.
        """
        self.store = store
        self.spec = spec
        self.fingerprint = spec.fingerprint()
        self.folder = f"{store}/{self.fingerprint}"
        self.storage = storage.owned(work_label(store, self.fingerprint))
        try:
            self.shards = read_plan(storage, store, self.fingerprint)
        except FileNotFoundError:
            self._create_plan(shards)
            self.shards = read_plan(storage, store, self.fingerprint)  # perhaps another writer's

    def pending(self) -> list[Shard]:
        """Shards without a record, in order; one listing, whatever their number.

        A listing that is late costs work and nothing else: the first record of a shard wins.
        """
        done = set(self.storage.names(f"{self.folder}/shards"))
        return [s for s in self.shards if self._name(s) not in done]

    def commit(self, shard: Shard, payload: Path, facts: Mapping[str, Json]) -> Record:
        """Store the blob, then create the record that names it; returns the winner's record.

        A lost race is not an error: the other writer computed the same rows.
        """
        sha256 = hash_file(payload)
        record = Record(shard, sha256, payload.stat().st_size, dict(facts))
        self.storage.put(sha256, payload)
        if not self.storage.create(self._name(shard), seal(self._own(record.to_json()))):
            return self.record(shard)
        return record

    def record(self, shard: Shard) -> Record:
        """The shard's committed record.

        Raises:
            FileNotFoundError: the shard is pending.
            CorruptError: the record is damaged, or describes another shard or store.
            InputError: another version of raypipe wrote it, in another format.
        """
        name = self._name(shard)
        body = self._read_own(name)
        check_shape(name, body, RecordShape)
        record = Record.from_json(body)
        if record.shard != shard:
            raise CorruptError(f"{name}: expected {shard}, found a record of {record.shard}")
        return record

    def manifest(self) -> Manifest | None:
        """The published manifest, or None while the store is incomplete."""
        return read_manifest(self.storage, self.store, self.fingerprint)

    def publish(self, max_failed_rows: int = 0, *, one_numerics: bool = False) -> Manifest:
        """Verify and create the manifest; returns the existing one if another writer was first.

        It verifies that every shard of the plan has its record, that the shards' ranges are
        disjoint and without gaps, and that every payload's bytes have their hash.

        Raises:
            IncompleteError: shards are missing.
            LimitError: more than `max_failed_rows` rows are in quarantine.
            InputError: with `one_numerics`, the shards come from several numerics classes.
            CorruptError: a payload or record is damaged.
        """
        standing = self.manifest()
        if standing is not None:
            return standing
        records = self._records()
        _check_ranges(self.store, self.shards)
        skipped = sorted({row for r in records for row in r.facts.get("skipped_rows", ())})
        if len(skipped) > max_failed_rows:
            raise LimitError(
                f"{self.store}: {len(skipped)} rows could not be computed, more than "
                f"max_failed_rows={max_failed_rows}; first rows {skipped[:10]}, of which the first "
                f"says: {self._reasons(skipped[:1])[0]}. {self.folder}/attempts.jsonl has all; fix "
                "them, or accept a store without them: resources.max_failed_rows"
            )
        if skipped:
            self._write_quarantine(skipped)
        numerics = sorted({str(r.facts["numerics"]) for r in records if "numerics" in r.facts})
        if one_numerics and len(numerics) > 1:
            raise InputError(
                f"{self.store}: resources.numerics is `one`, found shards of {len(numerics)} "
                f"numerics classes: {'; '.join(numerics)}. Compute them on one kind of machine."
            )
        for sha256 in {r.sha256 for r in records}:
            self.storage.check(sha256)
        manifest = Manifest(self.store, self.fingerprint, records, tuple(numerics), tuple(skipped))
        self.storage.create(f"{self.folder}/manifest.json", manifest.to_bytes())
        published = self.manifest()
        assert published is not None
        return published

    def _records(self) -> tuple[Record, ...]:
        """Every shard's record, in order, each asked for by its name."""
        records, missing = [], []
        for shard in self.shards:
            try:
                records.append(self.record(shard))
            except FileNotFoundError:
                missing.append(shard)
        if missing:
            raise IncompleteError(
                f"{self.store}: {len(missing)} of {len(self.shards)} shards are missing, "
                f"first {missing[0]}; run the same command again to compute them"
            )
        return tuple(records)

    def note(self, event: Mapping[str, Json]) -> None:
        """Add a line to attempts.jsonl: times, attempts and reasons, which are part of no hash."""
        line = json.dumps(event, sort_keys=True).encode()
        self.storage.append(f"{self.folder}/attempts.jsonl", line)

    def _write_quarantine(self, skipped: Sequence[int]) -> None:
        """Write quarantine.parquet: each row and why, from the log of attempts; part of no hash."""
        columns = [pa.array(skipped, pa.int64()), pa.array(self._reasons(skipped), pa.string())]
        stream = pa.BufferOutputStream()
        pq.write_table(pa.table(columns, names=["row", "reason"]), stream)
        data = stream.getvalue().to_pybytes()
        self.storage.create(f"{self.folder}/quarantine.parquet", data)

    def _reasons(self, rows: Sequence[int]) -> list[str]:
        """Why each of these rows was not computed, from the log of attempts."""
        try:
            attempts = events(self.storage.read(f"{self.folder}/attempts.jsonl"))
        except FileNotFoundError:
            attempts = []
        quarantined = [e for e in attempts if e.get("event") == "quarantined"]
        # A log is checked by nothing: a flipped bit in it must not keep a store from publishing.
        reasons = {str(e.get("row")): _text(e.get("reason")) for e in quarantined}
        return [reasons.get(str(row), "not told") for row in rows]

    def _create_plan(self, shards: Sequence[Shard] | None) -> None:
        if shards is None:
            raise IncompleteError(f"{self.folder}: no plan is stored here and none was given")
        self.storage.create(f"{self.folder}/spec.json", seal(self.spec.to_json()))
        body = plan_body(self.store, self.fingerprint, shards)
        self.storage.create(f"{self.folder}/plan.json", seal(body))

    def _own(self, body: Mapping[str, Json]) -> dict[str, Json]:
        """The body, with the format and the store to which it belongs."""
        mine = {"format": FORMAT, "store": self.store, "fingerprint": self.fingerprint}
        return {**mine, **body}

    def _read_own(self, name: str) -> dict[str, Json]:
        return body_of_store(name, self.storage.read(name), self.store, self.fingerprint)

    def _name(self, shard: Shard) -> str:
        return f"{self.folder}/shards/{shard.index:05d}.json"


def _text(value: Json) -> str:
    """The value as text that Parquet can hold: half a surrogate pair becomes a question mark."""
    return str(value).encode(errors="replace").decode()


def _check_ranges(store: str, shards: Sequence[Shard]) -> None:
    """Check that row ranges are disjoint and complete: in each span, one starts where one stops."""
    by_span: dict[tuple[int, int], int] = {}
    for shard in sorted(shards, key=lambda s: (s.span_start, s.start)):
        span = (shard.span_start, shard.span_stop)
        expected = by_span.get(span, 0)
        if shard.start != expected:
            raise CorruptError(f"{store}: {shard} should start at row {expected}")
        by_span[span] = shard.stop
    if len(set(by_span.values())) > 1:
        raise CorruptError(f"{store}: its spans end at different rows: {by_span}")
