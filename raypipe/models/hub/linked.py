"""A model whose files are in stores: a folder of links to this node's copies, made where it lacks.

    CACHE/hub/STORES/models--OWNER--NAME/snapshots/COMMIT/...

The last three parts are those of huggingface_hub's own cache, so the folder says whose copy it is.
"""

import json
import os
import uuid
from pathlib import Path

from raypipe.models.hub.held import NOTE, HeldFiles
from raypipe.storage.files import replace_file
from raypipe.storage.root import open_storage


def linked_folder(held: HeldFiles) -> Path:
    """The folder on this node, in which each name is a link to a verified copy of the file.

    Raises:
        CorruptError: a file is missing in the stores, or its hash differs.
    """
    folder = held.place
    storage = open_storage(held.stores)
    for name, sha256 in held.files.items():
        _link(folder / name, storage.local(sha256).absolute())
    note = {"repository": held.repository, "commit": held.commit, "files": dict(held.files)}
    replace_file(folder / NOTE, json.dumps({"stores": held.stores, **note}).encode())
    return folder


def _link(place: Path, copy: Path) -> None:
    """Make the place a link to the copy; whoever reads it meanwhile sees the old or the new one."""
    if place.is_symlink() and Path(os.readlink(place)) == copy:
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    # Containers that share the folder may have the same process ids.
    beside = place.with_name(f".{place.name}.{uuid.uuid4().hex}")
    beside.symlink_to(copy)
    os.replace(beside, place)
