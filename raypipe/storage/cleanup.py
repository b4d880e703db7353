"""Marks on what gc is about to delete, for those who are about to use it.

Who deletes creates the mark, then looks once more whether anybody uses the thing. Who uses it says
so (in a ref, or by the time of a payload), then looks for the mark. So at least one of them sees
the other, whoever is slow or paused: the one spares it, or the other waits until it is gone.
"""

import time

from raypipe.errors import RefusedError
from raypipe.storage.records import FORMAT, seal
from raypipe.storage.storage import Storage

MARKS = "gc/doomed"
WAIT_SECONDS = 60.0
POLL_SECONDS = 0.2


def doom(storage: Storage, place: str) -> None:
    """Mark a store (NAME/FINGERPRINT) or a payload (blobs/SHA256)."""
    storage.create(f"{MARKS}/{place}", seal({"format": FORMAT}))


def spare(storage: Storage, place: str) -> None:
    """Take the mark away, after the deletion or instead of it."""
    storage.delete(f"{MARKS}/{place}")


def doomed_places(storage: Storage) -> list[str]:
    """Everything that is marked."""
    return [name.removeprefix(f"{MARKS}/") for name in storage.names(MARKS)]


def wait_for_gc(storage: Storage, place: str, *, seconds: float = WAIT_SECONDS) -> bool:
    """Whether the place was marked; it no longer is when this returns.

    Raises:
        RefusedError: the mark stays: gc was killed, or is paused.
    """
    if not storage.exists(f"{MARKS}/{place}"):
        return False
    deadline = time.monotonic() + seconds
    while storage.exists(f"{MARKS}/{place}"):
        if time.monotonic() > deadline:
            raise RefusedError(
                f"{storage.uri}/{place}: gc is about to delete this and has not done so for "
                f"{seconds:.0f} s. If it was killed, `raypipe gc DIR --yes` ends what it began; "
                "then run the same command again"
            )
        time.sleep(POLL_SECONDS)
    return True
