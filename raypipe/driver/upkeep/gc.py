"""Deletes what nothing refers to, beside invocations that may begin to use it at any moment."""

from raypipe.driver.upkeep.garbage import (
    SPARED_SECONDS,
    Garbage,
    at_work,
    find_garbage,
    is_old,
    kept_stores,
    named_payloads,
    now,
)
from raypipe.driver.workspace import Workspace
from raypipe.errors import RefusedError
from raypipe.storage.cleanup import doom, doomed_places, spare
from raypipe.storage.lease import Lease, acquire
from raypipe.storage.storage import Storage

__all__ = ["Garbage", "delete", "find_garbage"]
LEASE = "gc/lease.json"


def delete(
    workspace: Workspace, garbage: Garbage, *, spared_seconds: float = SPARED_SECONDS
) -> list[str]:
    """The names that were deleted: what was found, unless somebody uses it by now.

    One gc works in a root at a time. Marks that a killed one left are taken away.

    Raises:
        RefusedError: another gc is at work.
    """
    stores = workspace.stores
    lease = acquire(stores, LEASE)
    try:
        return _delete(stores, garbage, lease, spared_seconds)
    finally:
        lease.release()


def _delete(stores: Storage, garbage: Garbage, lease: Lease, spared_seconds: float) -> list[str]:
    blobs = {f"blobs/{name.rpartition('/')[2]}": name for name in garbage.blobs}
    for place in doomed_places(stores):
        if place not in garbage.stores and place not in blobs:
            spare(stores, place)
    deleted = [*garbage.generations, *garbage.left_over]
    for name in deleted:
        stores.delete(name)
    for place in garbage.stores:
        doom(stores, place)
    kept = kept_stores(stores)
    used: set[str] = set()
    for place, files in garbage.stores.items():
        if place not in kept and not at_work(stores, place):
            deleted += _deleted(stores, files, lease)
        else:
            used |= named_payloads(stores, files)
        spare(stores, place)
    oldest = now(stores) - spared_seconds
    for place, name in blobs.items():
        doom(stores, place)
        if place.removeprefix("blobs/") not in used and is_old(stores, name, oldest):
            deleted += _deleted(stores, [name], lease)
        spare(stores, place)
    return deleted


def _deleted(stores: Storage, files: list[str], lease: Lease) -> list[str]:
    for name in files:
        if lease.lost:
            raise RefusedError(f"{stores.uri}: another gc has taken over; run again")
        stores.delete(name)
    return files
