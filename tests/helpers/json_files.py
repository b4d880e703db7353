"""JSON files written and changed."""

import json


def write(path, body):
    """A file of this body; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(body))


def changed(path, **fields):
    """The file with other fields."""
    write(path, {**json.loads(path.read_text()), **fields})
