"""What a model folder whose files are in stores says of itself: where they are."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from raypipe.storage.records import digest

NOTE = ".raypipe-stores.json"
"""The file of the folder that says where its files are."""


@dataclass(frozen=True, slots=True)
class HeldFiles:
    """The files of a model in a root of stores; workers get this and make a folder of it."""

    stores: str
    """The root's URI."""
    repository: str
    commit: str
    files: Mapping[str, str]
    """SHA-256 by name, such as 1_Pooling/config.json."""

    @property
    def place(self) -> Path:
        """The folder on this node, which only `linked_folder` makes."""
        owner = self.repository.replace("/", "--")
        stores = digest(self.stores.encode())[:16]
        return _cache() / stores / f"models--{owner}" / "snapshots" / self.commit


def read_note(folder: Path) -> HeldFiles | None:
    """Where the files of such a folder are; None of any other folder.

    A note anywhere else is not believed: it came with the model, and whoever wrote it would choose
    the stores that are opened here and the names of the links.
    """
    folder = folder.absolute()
    if not folder.is_relative_to(_cache().absolute()):
        return None
    try:
        body = json.loads((folder / NOTE).read_bytes())
        found = HeldFiles(body["stores"], body["repository"], body["commit"], body["files"])
        return found if found.place.absolute() == folder else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "raypipe" / "hub"
