"""The few operations of storage from which everything durable is built."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from raypipe.errors import InputError


@dataclass(frozen=True, slots=True)
class Entry:
    """A stored record or blob, for gc."""

    name: str
    num_bytes: int
    written: float
    """When it was last written, in seconds since 1970, by the clock of whoever stores it."""


class Storage(Protocol):
    """A root of stores: a folder or a bucket. The only code that differs between the two."""

    uri: str

    def create(self, name: str, data: bytes) -> bool:
        """Create a record, complete and durable or not at all; False if the name exists.

        Where an answer was lost on the way, the record's own bytes show that it was created.
        """

    def replace(self, name: str, data: bytes) -> None:
        """Replace a record on which safety does not depend; readers see the old or the new one."""

    def append(self, name: str, line: bytes) -> None:
        """Add a line to a log (NAME.jsonl), which is part of no hash."""

    def tail(self, name: str, start: int) -> tuple[bytes, int]:
        """The complete lines of a log after `start` (0 at first), and where to continue.

        Empty if the log does not exist yet.
        """

    def newest(self, name: str) -> Iterator[bytes]:
        """The lines of a log from the last one back; none if it does not exist."""

    def read(self, name: str) -> bytes:
        """The bytes of a record or log. Raises FileNotFoundError."""

    def exists(self, name: str) -> bool:
        """Whether the record exists."""

    def put(self, sha256: str, file: Path) -> None:
        """Store a blob under its hash; repeating it is harmless."""

    def has(self, sha256: str) -> bool:
        """Whether the blob exists; does not read its bytes."""

    def check(self, sha256: str) -> None:
        """Read the whole stored blob. Raises CorruptError if it is missing or its hash differs."""

    def local(self, sha256: str) -> Path:
        """A verified node-local copy, fetched once under a lock; only such copies are mapped."""

    def scratch(self) -> Path:
        """A new private folder for unfinished payloads, removed with its owner's other files."""

    def owned(self, owner: str) -> "Storage":
        """The same root, which files unfinished data under `owner`."""

    def sweep(self) -> None:
        """Remove the unfinished data of this owner's dead invocations."""

    def names(self, prefix: str) -> Iterator[str]:
        """Names of all records and blobs under a folder, sorted; never for what decides a row."""

    def entries(self) -> Iterator[Entry]:
        """Everything that is stored, sorted by name; for gc only."""

    def entry(self, name: str) -> Entry | None:
        """One of them as it is now; None if it is gone."""

    def peek(self, name: str) -> bytes | None:
        """The bytes of one of them, whatever its name; None if it is gone; for gc only."""

    def delete(self, name: str) -> None:
        """Remove a record or blob; for gc only."""

    def free_bytes(self) -> int | None:
        """Free space in bytes; None if there is no such limit."""


def checked_name(name: str) -> str:
    """The name itself, if it stays inside the root.

    Raises:
        InputError: it is absolute, leaves the root, or has characters that are not allowed.
    """
    parts = name.split("/")
    allowed = all(p and p not in (".", "..") and not set(p) - _ALLOWED for p in parts)
    if not allowed:
        raise InputError(
            f"{name!r}: expected a name of letters, digits and . _ - @ between single slashes"
        )
    return name


_ALLOWED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@")
