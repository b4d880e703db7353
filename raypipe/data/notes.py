"""Notes beside files that raypipe made, which say what they were made from."""

import json
from pathlib import Path

from raypipe.storage.records import Json


def note_in(path: Path) -> Json:
    """The content of a note; None if there is none or it is damaged: the files are made again."""
    try:
        return json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
