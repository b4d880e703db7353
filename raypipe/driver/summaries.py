"""summary.json: how the last invocation ended and what it left, sealed by a hash of its own."""

import json
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

from raypipe.driver.mirror import write_out
from raypipe.errors import CorruptError
from raypipe.regular import check_regular
from raypipe.storage.records import Json, digest

FILE = "summary.json"
FORMAT = 2
"""1 had no notes, and of inferences neither `computed` nor `copied`; it is still read."""
_SEAL = "sha256"


def new_summary(recipe: str | None) -> dict[str, Json]:
    """The summary of an invocation that begins, with an id of its own."""
    run = uuid.uuid4().hex[:12]
    state = {"status": "running", "exit": None, "reason": None}
    return {"format": FORMAT, **state, "began": now(), "run": run, "recipe": recipe}


def now() -> str:
    """The time in UTC, to the second: 2026-11-23T02:00:00Z."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def write_summary(folder: Path, summary: Mapping[str, Json]) -> None:
    """Replace summary.json in a workspace's folder, and in the bucket that it mirrors."""
    write_out(folder, FILE, _sealed(summary))


def read_summary(folder: Path) -> dict[str, Json] | None:
    """What was written, without the seal; None if there is no summary.json.

    Raises:
        CorruptError: its bytes are not those that were written.
        InputError: it is a folder, a pipe or a device.
    """
    path = folder / FILE
    check_regular(path)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        body = dict(json.loads(data))
        whole = _sealed({name: value for name, value in body.items() if name != _SEAL}) == data
    except (ValueError, TypeError, RecursionError):
        whole = False
    if not whole:
        raise CorruptError(
            f"{path}: its bytes are not those that were written, so how the last invocation "
            "ended is unknown; run its recipe again with the same --out, which writes it anew"
        )
    del body[_SEAL]
    return body


def _sealed(summary: Mapping[str, Json]) -> bytes:
    body = json.dumps(dict(summary), indent=1)
    return json.dumps({**json.loads(body), _SEAL: digest(body.encode())}, indent=1).encode() + b"\n"
