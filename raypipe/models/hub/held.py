"""What a model folder whose files are in stores says of itself: where they are."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

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


def read_note(folder: Path) -> HeldFiles | None:
    """Where the files of such a folder are; None of any other folder."""
    try:
        body = json.loads((folder / NOTE).read_bytes())
        return HeldFiles(body["stores"], body["repository"], body["commit"], body["files"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
