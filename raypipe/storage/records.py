"""Sealed JSON records: small files that show whether they are intact, and their fields' types."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from raypipe.errors import CorruptError, InputError
from raypipe.regular import check_regular

Json = Any
FORMAT = 6
"""Format of every record in a workspace and its stores; raypipe refuses any other."""


def canonical(body: Json) -> bytes:
    """The canonical bytes of a JSON value: sorted keys, no blanks, ASCII."""
    return json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def digest(data: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def hash_file(path: Path, algorithm: str = "sha256") -> str:
    """SHA-256 of a file, or another hash, in hexadecimal.

    Raises:
        InputError: the path is a folder, a pipe or a device.
    """
    check_regular(path)
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, algorithm).hexdigest()


def hash_once(path: Path) -> str:
    """The same, kept in this process until the file changes; no program can set the time of that.

    Raises:
        InputError: see `hash_file`.
    """
    stat = path.stat()
    return _hash(str(path), stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


@cache
def _hash(path: str, inode: int, size: int, mtime_ns: int, ctime_ns: int) -> str:
    return hash_file(Path(path))


def seal(body: Mapping[str, Json]) -> bytes:
    """The record's bytes: canonical JSON of the body and the body's SHA-256."""
    sealed = {"body": body, "sha256": digest(canonical(body))}
    return canonical(sealed) + b"\n"


def unseal(name: str, data: bytes) -> dict[str, Json]:
    """The body of a sealed record.

    Raises:
        CorruptError: any byte differs from what `seal` wrote, blanks included.
    """
    try:
        body = json.loads(data)["body"]
        whole = isinstance(body, dict) and seal(body) == data
    except (ValueError, KeyError, TypeError, RecursionError):
        whole = False
    if not whole:
        raise CorruptError(
            f"{name}: the record's bytes are not those that were written (its SHA-256 differs). "
            "`raypipe verify` says which file to delete so that it is remade."
        )
    return dict(body)


def unseal_format(name: str, data: bytes) -> dict[str, Json]:
    """The body of a sealed record in this format.

    Raises:
        CorruptError: see `unseal`.
        InputError: another version of raypipe wrote it.
    """
    body = unseal(name, data)
    if body.get("format") != FORMAT:
        raise InputError(
            f"{name}: expected records of format {FORMAT}, found format {body.get('format')!r}: "
            "another version of raypipe wrote them. Name a new --out, and a new place for "
            "`stores` if the recipe has one, or use that version; nothing was changed"
        )
    return body


@dataclass(frozen=True, slots=True)
class Shard:
    """A unit of work: rows [start, stop), and for searches a span of the other side."""

    index: int
    start: int
    stop: int
    span_start: int = 0
    span_stop: int = 0

    @property
    def num_rows(self) -> int:
        """Number of rows of the shard's own side."""
        return self.stop - self.start

    def to_json(self) -> list[int]:
        """The five numbers, in declaration order."""
        return [self.index, self.start, self.stop, self.span_start, self.span_stop]

    def __str__(self) -> str:
        """The shard's name in messages and logs."""
        span = f" x [{self.span_start}, {self.span_stop})" if self.span_stop else ""
        return f"shard {self.index:05d} rows [{self.start}, {self.stop}){span}"


@dataclass(frozen=True, slots=True)
class Record:
    """One committed shard: the place of its payload and the facts that a reader needs.

    It holds only what the rows' values determine. Times and attempts go to attempts.jsonl, so that
    a killed job leaves the same records as an undisturbed one.
    """

    shard: Shard
    sha256: str
    num_bytes: int
    facts: Mapping[str, Json] = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        """The record's body."""
        return {**asdict(self), "shard": self.shard.to_json(), "facts": dict(self.facts)}

    @staticmethod
    def from_json(body: Mapping[str, Json]) -> "Record":
        """The record from such a body."""
        return Record(Shard(*body["shard"]), body["sha256"], body["num_bytes"], dict(body["facts"]))


@dataclass(frozen=True, slots=True)
class Manifest:
    """Every shard's record, in shard order; its existence means that the store is complete."""

    store: str
    fingerprint: str
    records: tuple[Record, ...]
    numerics: tuple[str, ...]
    skipped_rows: tuple[int, ...] = ()

    @property
    def num_rows(self) -> int:
        """Number of rows of all shards (in a search's parts, query rows count once per span)."""
        return sum(r.shard.num_rows for r in self.records)

    @property
    def coverage(self) -> float:
        """Share of the rows that have a value: 1.0 unless rows are in quarantine."""
        return 1.0 - len(self.skipped_rows) / self.num_rows if self.num_rows else 1.0

    def to_bytes(self) -> bytes:
        """The sealed bytes; equal for equal payloads, whoever computed them."""
        return seal(
            {
                "format": FORMAT,
                "store": self.store,
                "fingerprint": self.fingerprint,
                "records": [r.to_json() for r in self.records],
                "numerics": list(self.numerics),
                "skipped_rows": list(self.skipped_rows),
            }
        )

    @property
    def identity(self) -> str:
        """The SHA-256 of all that decides the rows of this store, for downstream fingerprints.

        That is its name, its fingerprint, the rows in quarantine and the numerics classes. Where
        its shards begin, their payloads' bytes and who computed them are not in it.
        """
        rows, classes = sorted(self.skipped_rows), sorted(self.numerics)
        return digest(canonical([self.store, self.fingerprint, rows, classes]))

    @staticmethod
    def from_json(body: Mapping[str, Json]) -> "Manifest":
        """The manifest from the body of its sealed bytes."""
        return Manifest(
            body["store"],
            body["fingerprint"],
            tuple(Record.from_json(r) for r in body["records"]),
            tuple(body["numerics"]),
            tuple(body["skipped_rows"]),
        )


Count = Annotated[int, Field(ge=0, lt=2**63)]
"""Also a row, or a size in bytes."""
Place = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._@-]*$", max_length=255)]
"""A word that is a part of a file's name: a store, a fingerprint, the id of a workspace."""


class Shape(BaseModel):
    """The fields that an object must have, each of exactly its type; it may have more."""

    model_config = ConfigDict(strict=True)


def fits(body: Mapping[str, Any], shape: type[Shape]) -> bool:
    """Whether an object has the shape, for lines of a log that are left out otherwise."""
    try:
        shape.model_validate(body)
    except ValidationError:
        return False
    return True


_VERIFY = "`raypipe verify` says which file to delete so that it is remade"


def check_shape(
    name: str, body: Mapping[str, Any], shape: type[Shape], *, remedy: str = _VERIFY
) -> None:
    """Returns nothing if a file's object has the shape.

    A seal shows that the bytes are those that were written; what wrote them may still have been
    another program.

    Raises:
        CorruptError: a field is missing or of another type; the message names the first.
    """
    try:
        shape.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part)[:40] for part in first["loc"]) or "the whole"
        raise CorruptError(
            f"{name}: {place}: {first['msg'].lower()}; another program or version wrote this; "
            f"{remedy}"
        ) from None
