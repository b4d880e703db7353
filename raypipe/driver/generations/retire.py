"""Retires generations that are no longer kept, unless somebody reads them."""

import time
from collections.abc import Callable

from raypipe.storage.generations import (
    claims_that_ended,
    generation_files,
    generation_names,
    generation_numbers,
    reader_leases,
    record_numbers,
    retire,
    undeleted_numbers,
)
from raypipe.storage.holder import Life
from raypipe.storage.lease import lease_state
from raypipe.storage.storage import Storage
from raypipe.vocabulary import LEAST_GENERATIONS

GRACE_SECONDS = 5.0
"""Wait for a reader whose lease becomes visible late, on a file system that caches names."""
REMOTE_SECONDS = 600.0
"""A reader that cannot be seen from here is dead if its lease was not renewed for so long."""
Sleep = Callable[[float], None]


def retire_older(stores: Storage, name: str, keep: int) -> list[int]:
    """Mark all but the newest `keep` generations; returns their numbers.

    The newest `keep` refused ones stay too, but none that is older than those generations.
    """
    keep = max(LEAST_GENERATIONS, keep)
    published, standing = generation_numbers(stores, name), record_numbers(stores, name)
    refused = [number for number in standing if number not in published]
    first = published[-keep] if len(published) >= keep else 0
    kept = {*published[-keep:], *(number for number in refused[-keep:] if number > first)}
    old = [number for number in standing if number not in kept]
    for number in old:
        retire(stores, name, number)
    return old


def unread_generations(stores: Storage, *, sleep: Sleep = time.sleep) -> list[tuple[str, int]]:
    """The marked generations that nobody reads, in every line of the root.

    Waits for a moment first, and for up to 10 minutes, on this process's own clock, for readers
    that cannot be seen from here.
    """
    names = generation_names(stores)
    marked = [(name, number) for name in names for number in undeleted_numbers(stores, name)]
    if marked:
        sleep(GRACE_SECONDS)
    return [(name, n) for name, n in marked if not _is_read(stores, name, n, sleep)]


def files_of(stores: Storage, unread: list[tuple[str, int]]) -> list[str]:
    """The files of these generations in the order of deletion, and the claims that ended."""
    files = [file for name, number in unread for file in generation_files(stores, name, number)]
    return [*files, *claims_that_ended(stores)]


def _is_read(stores: Storage, name: str, number: int, sleep: Sleep) -> bool:
    unseen = {}
    for label in reader_leases(stores, name, number):
        state = lease_state(stores, label)
        life = Life.DEAD if state is None else state.life()
        if life is Life.ALIVE:
            return True
        if state is not None and life is Life.UNKNOWN:
            unseen[label] = state.counter
    deadline = time.monotonic() + REMOTE_SECONDS
    while unseen and time.monotonic() < deadline:
        sleep(1.0)
        for label in list(unseen):
            state = lease_state(stores, label)
            if state is None or state.released:
                del unseen[label]
            elif state.counter != unseen[label]:
                return True
    return False
