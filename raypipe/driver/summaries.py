"""summary.json: how the last invocation ended and what it left, sealed by a hash of its own."""

import json
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

from raypipe.config.resolved import is_resolved
from raypipe.driver.mirror import write_out
from raypipe.errors import CorruptError, InputError, LimitError
from raypipe.regular import check_regular
from raypipe.storage.records import Json, digest

FILE = "summary.json"
FORMAT = 2
_SEAL = b',\n "sha256": "'


def new_summary(recipe: str | None) -> dict[str, Json]:
    """The summary of an invocation that begins, with an id of its own."""
    run = uuid.uuid4().hex[:12]
    state = {"status": "running", "exit": None, "reason": None, "cause": None}
    return {"format": FORMAT, **state, "began": now(), "run": run, "recipe": recipe}


def carried(folder: Path, *, worked: bool = False) -> dict[str, Json]:
    """Entries of a new summary that come from the one that it replaces.

    `finished_before` says whether an invocation was ever complete here; where summary.json is lost,
    the recipe.yaml of one that worked counts, or `worked`. `last_complete` is the summary of the
    last one with results, complete or refused by a limit, as long as its files stand: see
    `invocation`.
    """
    try:
        before = read_summary(folder)
    except CorruptError:
        return {"finished_before": True}  # it may have been
    if before is None:
        return {"finished_before": worked or is_resolved(folder / "recipe.yaml")}
    standing = standing_of(before)
    complete = standing.get("status") == "complete"
    facts = {"finished_before": complete or before.get("finished_before", True)}
    if has_results(standing) and (complete or standing.get("exit") == LimitError.exit_code):
        facts["last_complete"] = standing
    return facts


def has_results(summary: Mapping[str, Json]) -> bool:
    """Whether it is of a pipeline or a training; what only moves generations has none."""
    return not {"systems", "model", "phases"}.isdisjoint(summary)


def standing_of(summary: dict[str, Json]) -> dict[str, Json]:
    """The summary of the invocation whose files stand: the last complete one if the newest ended
    before its work, or has not begun it; otherwise the newest one itself."""
    standing: dict[str, Json] = summary.get("last_complete", summary)
    return standing


def now() -> str:
    """The time in UTC, to the second: 2026-11-23T02:00:00Z."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def write_summary(folder: Path, summary: Mapping[str, Json]) -> None:
    """Replace summary.json in a workspace's folder, and in the bucket that it mirrors."""
    write_out(folder, FILE, _sealed(json.dumps(dict(summary), indent=1).encode()))


def read_summary(folder: Path) -> dict[str, Json] | None:
    """The summary that was written, without the seal; None if there is no summary.json.

    Raises:
        CorruptError: its bytes are not those that were written.
    """
    path = folder / FILE
    try:
        check_regular(path)
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except InputError:
        data = b""  # a pipe would wait for ever
    text = data[: data.rfind(_SEAL)] + b"\n}"
    try:
        body = dict(json.loads(text)) if _sealed(text) == data else None
    except (ValueError, TypeError, RecursionError):
        body = None
    if body is None:
        raise CorruptError(
            f"{path}: its bytes are not those that were written, so how the last invocation "
            "ended is unknown; run its recipe again with the same --out, which writes it anew"
        )
    return body


def _sealed(text: bytes) -> bytes:
    """A summary's text, which has one value or more, with the hash of it as its last value."""
    return text[:-2] + _SEAL + digest(text).encode() + b'"\n}\n'
