"""summary.json says how the last invocation ended, results.json which results stand.

Both are sealed by a hash of their own. Every invocation replaces summary.json. results.json is the
summary of the last invocation that ended with results, complete or refused by a limit. It is taken
away before a file that it names is written over, and written after all of them, so whoever reads
results asks `read_results` alone.
"""

import json
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

from raypipe.config.resolved import is_resolved
from raypipe.driver.mirror import write_out
from raypipe.errors import CorruptError, InputError
from raypipe.regular import check_regular
from raypipe.storage.records import Json, digest

SUMMARY, RESULTS = "summary.json", "results.json"
FORMAT = 3
_UNKNOWN = {SUMMARY: "how the last invocation ended", RESULTS: "which results stand"}
_SEAL = b',\n "sha256": "'


def new_summary(recipe: str | None) -> dict[str, Json]:
    """The summary of an invocation that begins, with an id of its own."""
    run = uuid.uuid4().hex[:12]
    state = {"status": "running", "exit": None, "reason": None, "cause": None}
    return {"format": FORMAT, **state, "began": now(), "run": run, "recipe": recipe}


def carried(folder: Path, *, worked: bool = False) -> dict[str, Json]:
    """Entries of a new summary that come from what stands in the workspace.

    `finished_before` says whether an invocation was ever complete here; where summary.json is lost
    or damaged, the recipe.yaml of one that worked counts, or `worked`. `earlier` has the hashes of
    the files of the invocations before, and by recipe what they are made of. Without results these
    are what the last summary says, and files of it may have been written over.
    """
    last, results = undamaged(read_summary, folder), undamaged(read_results, folder)
    complete = any(each.get("status") == "complete" for each in (last, results) if each)
    if last is None:
        finished = complete or worked or is_resolved(folder / "recipe.yaml")
    else:
        finished = complete or last.get("finished_before", True)
    standing = results or last or {}
    standing = standing.get("earlier", standing)
    earlier = {key: standing.get(key, {}) for key in ("files", "made_of")}
    return {"finished_before": finished, "earlier": earlier}


def has_results(summary: Mapping[str, Json]) -> bool:
    """Whether it is of a pipeline or a training; what only moves generations has none."""
    return not {"systems", "model", "phases"}.isdisjoint(summary)


def now() -> str:
    """The time in UTC, to the second: 2026-11-23T02:00:00Z."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def write_summary(folder: Path, summary: Mapping[str, Json]) -> None:
    """Replace summary.json in a workspace's folder, and in the bucket that it mirrors."""
    _write(folder, SUMMARY, summary)


def write_results(folder: Path, summary: Mapping[str, Json]) -> None:
    """Replace results.json, after all files that it names; see `write_summary`."""
    _write(folder, RESULTS, summary)


def read_summary(folder: Path) -> dict[str, Json] | None:
    """The summary that was written, without the seal; None if there is no summary.json.

    Raises:
        CorruptError: its bytes are not those that were written.
    """
    return _read(folder, SUMMARY)


def read_results(folder: Path) -> dict[str, Json] | None:
    """The summary of the invocation whose results stand, without the seal; None if none do.

    Raises:
        CorruptError: the bytes of results.json are not those that were written.
    """
    return _read(folder, RESULTS)


def undamaged(
    read: Callable[[Path], dict[str, Json] | None], folder: Path
) -> dict[str, Json] | None:
    """The content that `read` returns; None also if it is damaged: an invocation writes it anew."""
    try:
        return read(folder)
    except CorruptError:
        return None


def _write(folder: Path, name: str, body: Mapping[str, Json]) -> None:
    write_out(folder, name, _sealed(json.dumps(dict(body), indent=1).encode()))


def _read(folder: Path, name: str) -> dict[str, Json] | None:
    path = folder / name
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
            f"{path}: its bytes are not those that were written, so {_UNKNOWN[name]} is unknown; "
            "run its recipe again with the same --out, which writes it anew"
        )
    return body


def _sealed(text: bytes) -> bytes:
    """A JSON object's text, which has one value or more, with the hash of it as its last value."""
    return text[:-2] + _SEAL + digest(text).encode() + b'"\n}\n'
