"""Whether a workspace is a copy of one that still exists and refers to the same stores."""

import os
from collections.abc import Mapping

from raypipe.errors import RaypipeError
from raypipe.storage.records import unseal
from raypipe.storage.root import open_storage
from raypipe.storage.storage import Storage


def place_of(own: Storage, stores: Storage) -> dict[str, str]:
    """Where a workspace and its stores are, as its refs record it."""
    return {"workspace": _resolved(own.uri), "stores": _resolved(stores.uri)}


def is_copy(place: Mapping[str, str], registered: Mapping[str, str], identity: str) -> bool:
    """Whether the workspace that registered this identity is another one, which still exists.

    Stores that were copied or moved along with their workspace are shared with nobody, and a
    workspace that is no longer where it was has been moved.
    """
    if not registered or registered["stores"] != place["stores"]:
        return False
    other = registered["workspace"]
    if _is_same(other, place["workspace"]):
        return False
    try:
        body = unseal("workspace.json", open_storage(other).read("workspace.json"))
    except (OSError, RaypipeError):
        return False
    return body.get("id") == identity


def _is_same(one: str, other: str) -> bool:
    """Whether two places are one, perhaps seen by two paths."""
    if one == other or "://" in one + other:
        return one == other
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def _resolved(uri: str) -> str:
    return uri if "://" in uri else os.path.realpath(uri)
