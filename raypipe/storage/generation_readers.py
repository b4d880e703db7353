"""Readers of a generation, whose stores stay while they read.

A reader creates its lease, then looks for the mark; whoever deletes creates the mark, then looks
for leases. So at least one of them sees the other, whatever their clocks say.
"""

import errno
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from raypipe.errors import InputError
from raypipe.storage.generations import (
    Generation,
    newest_generation,
    none_yet,
    read_generation,
    readers_folder,
    retired_name,
)
from raypipe.storage.leases.lease import acquire
from raypipe.storage.storage import Storage

_MAY_NOT_WRITE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT)


@contextmanager
def held_generation(storage: Storage, name: str, number: int | None = None) -> Iterator[Generation]:
    """A generation (None: the newest) whose stores stay while the block runs.

    A reader that cannot write leaves no lease; it relies on the number of kept generations and on
    the hours that gc spares new files.

    Raises:
        InputError: no such generation, or it is retired.
    """
    while True:
        found = newest_generation(storage, name) if number is None else None
        if number is not None:
            found = read_generation(storage, name, number)
        if found is None:
            raise InputError(none_yet(storage, name))
        label = f"{readers_folder(name, found.number)}/{secrets.token_hex(8)}.json"
        try:
            lease = acquire(storage, label)
        except OSError as error:
            if error.errno not in _MAY_NOT_WRITE:
                raise
            yield found
            return
        try:
            if storage.exists(retired_name(name, found.number)):
                continue  # retired since; the newest is another, and a named one is refused
            yield found
            return
        finally:
            lease.release()
            _remove(storage, readers_folder(name, found.number), label)


def reader_leases(storage: Storage, name: str, number: int) -> list[str]:
    """Names of the leases of a generation's readers, alive or not."""
    claim = re.compile(r"(.*/[0-9a-f]{16}\.json)\.d/\d+\.json")
    found = (claim.fullmatch(file) for file in storage.names(readers_folder(name, number)))
    return sorted({match[1] for match in found if match})


def _remove(storage: Storage, folder: str, label: str) -> None:
    for file in list(storage.names(folder)):
        if file.startswith(label):
            storage.delete(file)
