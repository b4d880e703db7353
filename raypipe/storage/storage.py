"""The few acts of storage that everything durable is built from."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from raypipe.errors import InputError


class Storage(Protocol):
    """A root of stores: a folder or a bucket. The only code that differs between the two."""

    uri: str

    def create(self, name: str, data: bytes) -> bool:
        """Whole and durable, or nothing; False if the name exists: the one primitive."""

    def replace(self, name: str, data: bytes) -> None:
        """For what guards nothing: renewals of a lease, refs. Readers see old or new, no mix."""

    def append(self, name: str, line: bytes) -> None:
        """Add a line to a log that no hash covers."""

    def tail(self, name: str, start: int) -> tuple[bytes, int]:
        """What stands in a log after `start`, 0 at first, in whole lines; and where to go on.

        Nothing where there is no such log yet.
        """

    def read(self, name: str) -> bytes:
        """The bytes of a record. Raises FileNotFoundError."""

    def exists(self, name: str) -> bool:
        """Whether the record is there."""

    def put(self, sha256: str, file: Path) -> None:
        """Store a blob under its hash; repeating it is harmless."""

    def has(self, sha256: str) -> bool:
        """Whether the blob is there, its bytes unread."""

    def check(self, sha256: str) -> None:
        """Read the stored blob whole. Raises CorruptError if it is missing or its hash differs."""

    def local(self, sha256: str) -> Path:
        """Node-local verified copy, fetched once under a lock; the only thing anyone maps."""

    def scratch(self) -> Path:
        """A fresh private folder for payloads in the making, swept with its owner."""

    def owned(self, owner: str) -> "Storage":
        """The same root; what it makes that is not yet durable is filed under `owner`."""

    def sweep(self) -> None:
        """Remove what this owner's dead invocations left unfinished."""

    def names(self, prefix: str) -> Iterator[str]:
        """Every record and blob name under a prefix: for gc and verify, never for readers."""

    def delete(self, name: str) -> None:
        """Remove a record or blob: for gc alone."""

    def free_bytes(self) -> int | None:
        """Free space, None where there is no such limit."""


def checked_name(name: str) -> str:
    """The name itself, if it stays inside the root.

    Raises:
        InputError: it is absolute, climbs, or holds characters that do not belong in a name.
    """
    parts = name.split("/")
    allowed = all(p and p not in (".", "..") and not set(p) - _ALLOWED for p in parts)
    if not allowed:
        raise InputError(
            f"{name!r}: expected a name of letters, digits and . _ - @ between single slashes"
        )
    return name


_ALLOWED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@")
