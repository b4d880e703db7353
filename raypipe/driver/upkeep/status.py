"""The state of a workspace and its last invocation; loads neither Ray nor torch.

Everything is read from files, so any process that sees the folder can ask, also while a job runs.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from raypipe.config.resolved import read_resolved
from raypipe.config.yaml import parse_yaml
from raypipe.driver.mirror import address_of
from raypipe.driver.summaries import read_results, read_summary
from raypipe.driver.workspace import LEASE, Workspace
from raypipe.errors import InputError
from raypipe.regular import check_regular
from raypipe.storage.generations import (
    Generation,
    generation_numbers,
    newest_generation,
    refused_since,
)
from raypipe.storage.lease import living
from raypipe.storage.ledger import Ledger, events, read_manifest, read_spec
from raypipe.storage.records import Shape, check_shape, fits
from raypipe.storage.storage import Storage

INCOMPLETE = 3
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a workspace."""

    state: str
    """running, complete, failed, or killed (recorded as running, but without a live driver)."""
    exit_code: int
    """The exit code of `raypipe status`: that of the invocation, or 0 while it runs."""
    reason: str
    stores: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The `state` of each store: complete (`reused` if the invocation found it so), at work,
    incomplete, waiting or not begun; with shards and rows while it is incomplete. `earlier`
    says that a store of an earlier invocation is there, which this one has not used up to now."""
    began: str | None = None
    """When the invocation began, in UTC, as its driver's clock has it."""
    ended: str | None = None
    """When it ended; None while it runs, and if it was killed."""
    age_seconds: int | None = None
    """Since it ended, or else since it began."""
    cause: str | None = None
    """The cause of its end, where several have one exit code: `cause_of` of raypipe.errors, or
    killed; None while it runs, and if it is complete."""
    generation: dict[str, Any] | None = None
    """The current generation of the recipe: its number, facts and `age_seconds`; whatever the
    last invocation did, since it may have failed, and a rollback is none. None if there is none."""
    refused: list[dict[str, Any]] = field(default_factory=list)
    """Generations that were refused since, each with the same, and in `refused` why."""


def status(folder: Path) -> Status:
    """The state of a workspace, the progress of each of its stores, and its generations.

    Raises:
        InputError: no invocation ever began here, or its recipe.yaml cannot be read.
        CorruptError: summary.json or a record is damaged.
    """
    workspace = open_workspace(folder)
    summary, ending = _last(workspace)
    current, refused = None, []
    if (folder / "recipe.yaml").is_file():
        name = line_of_generations(folder)
        current = newest_generation(workspace.stores, name)
        refused = refused_since(workspace.stores, name, current)
    began, ended = summary.get("began"), summary.get("ended")
    return Status(
        *ending,
        _of_stores(workspace, summary, running=ending[0] == "running"),
        began=began,
        ended=ended,
        age_seconds=_age(ended or began),
        cause=_cause(summary, ending),
        generation=None if current is None else _aged(current),
        refused=[_aged(each) for each in refused],
    )


def _aged(generation: Generation) -> dict[str, Any]:
    facts = generation.told()
    return {**facts, "age_seconds": _age(facts.get("made"))}


def _age(when: object) -> int | None:
    """Whole seconds since a time in UTC, by this machine's clock; None if it is no time."""
    try:
        return max(0, int((datetime.now(UTC) - datetime.fromisoformat(str(when))).total_seconds()))
    except (ValueError, TypeError):
        return None


def _cause(summary: Mapping[str, Any], ending: tuple[str, int, str]) -> str | None:
    state, code, _ = ending
    if state == "killed":
        return state
    cause: str | None = summary.get("cause")
    return cause if code else None


def shown_results(folder: Path, of: str) -> dict[str, Any] | None:
    """The results that stand, complete and with the entry `of`; None if there are none.

    If a newer invocation ended before its work, a line of the log says so.
    """
    results, newest = read_results(folder), read_summary(folder)
    if results is None or results.get("status") != "complete" or of not in results:
        return None
    if newest is not None and newest.get("run") != results.get("run"):
        ended = status(folder)
        log.warning(
            "%s: shown is the invocation of %s, the last complete one; the newest one wrote no "
            "files (%s: exit %d, %s)",
            address_of(folder),
            results.get("began"),
            ended.state,
            ended.exit_code,
            ended.reason,
        )
    return results


def _last(workspace: Workspace) -> tuple[Mapping[str, Any], tuple[str, int, str]]:
    """The summary of the last invocation; and its state, exit code and reason."""
    name = str(workspace.folder / "summary.json")
    summary = workspace.read_summary()
    if summary is None:
        raise InputError(
            f"{workspace.folder}: no invocation has begun here: there is no summary.json"
        )
    check_shape(name, summary, _State, remedy=_REMEDY)
    if summary["status"] == "running":
        return summary, _running(workspace)
    check_shape(name, summary, _Ended, remedy=_REMEDY)
    return summary, (summary["status"], summary["exit"], summary["reason"])


def _running(workspace: Workspace) -> tuple[str, int, str]:
    """State, exit code and reason of an invocation that has not said how it ended."""
    lease = living(workspace.own, LEASE)
    if lease is None:
        return "killed", INCOMPLETE, "its driver was killed; the same command resumes"
    return "running", 0, f"{lease.holder} is working"


def _of_stores(
    workspace: Workspace, summary: Mapping[str, Any], *, running: bool
) -> dict[str, dict[str, Any]]:
    """Every store that the workspace refers to, or that its invocation has before it."""
    used, computed = set(summary.get("stores", ())), set(summary.get("computed", ()))
    states: dict[str, dict[str, Any]] = {}
    for store, fingerprint in workspace.refs().items():
        place = f"{store}/{fingerprint}"
        states[store] = progress_of(workspace.stores, store, fingerprint)
        if place not in used:
            states[store]["earlier"] = True
        elif states[store]["state"] == "complete" and place not in computed:
            states[store]["reused"] = True
        elif states[store]["state"] == "incomplete" and running:
            states[store]["state"] = "at work"
    begun = {place.rpartition("/")[0] for place in used}
    for store in summary.get("plan", ()):
        if store not in begun:
            earlier = {"earlier": True} if store in states else {}
            states[store] = {"state": "waiting" if running else "not begun", **earlier}
    return dict(sorted(states.items()))


class _State(Shape):
    status: str


class _Ended(Shape):
    exit: Annotated[int, Field(ge=0, le=255)]
    reason: str | None


_REMEDY = "run the same command again, which writes this file anew"


def _is_workspace(folder: Path) -> bool:
    """Whether an invocation began here; a lost workspace.json is written again."""
    return any((folder / name).exists() for name in ("workspace.json", "summary.json"))


def _stores(folder: Path) -> str | None:
    """The root of the stores of the last invocation's recipe."""
    path = folder / "recipe.yaml"
    return read_resolved(path).get("stores") if path.exists() else None


def open_workspace(folder: Path) -> Workspace:
    """An existing workspace, with the stores that its recipe names.

    Raises:
        InputError: the folder is not a workspace, or its recipe.yaml cannot be read.
    """
    if not _is_workspace(folder):
        raise InputError(
            f"{address_of(folder)}: no workspace; expected a folder that `--out` named"
        )
    return Workspace(folder, _stores(folder))


_LAST_LINES = 20
"""Last lines of a log that are read. While shards are computed, the last event of one that was done
is among them."""


def progress_of(stores: Storage, store: str, fingerprint: str) -> dict[str, Any]:
    """The `state` of a store: complete, not planned, or incomplete.

    An incomplete one also has `shards`, `done` of them, `rows` and `rows_done`; and, once an
    invocation has committed a shard, `rows_per_second` since the first worker was ready, and
    `seconds_left` at that rate.

    Raises:
        CorruptError: a record is damaged.
    """
    if read_manifest(stores, store, fingerprint) is not None:
        return {"state": "complete"}
    if not stores.exists(f"{store}/{fingerprint}/plan.json"):
        return {"state": "not planned"}
    ledger = Ledger(stores, store, read_spec(stores, store, fingerprint))
    pending = ledger.pending()
    rows = sum(shard.num_rows for shard in ledger.shards)
    left = sum(shard.num_rows for shard in pending)
    progress: dict[str, Any] = {
        "state": "incomplete",
        "shards": len(ledger.shards),
        "done": len(ledger.shards) - len(pending),
        "rows": rows,
        "rows_done": rows - left,
    }
    rate = _rate(stores, f"{store}/{fingerprint}/attempts.jsonl")
    if rate is not None:
        progress |= {"rows_per_second": round(rate, 3), "seconds_left": round(left / rate)}
    return progress


_Number = Annotated[float, Field(gt=0, lt=1e18, allow_inf_nan=False)]


class _DoneShape(Shape):
    """The part that is read of a log's event about a committed shard."""

    so_far: Annotated[list[_Number], Field(min_length=2, max_length=2)]
    """Rows and working seconds of the invocation up to then."""


def _rate(stores: Storage, log: str) -> float | None:
    """Rows in a second, by the last invocation that committed a shard; None if there is none."""
    for line in islice(stores.newest(log), _LAST_LINES):
        for event in events(line):
            if event.get("event") == "done" and fits(event, _DoneShape):
                rows, seconds = event["so_far"]
                return float(rows / seconds)
    return None


def line_of_generations(folder: Path) -> str:
    """The name of a workspace's generations: that of the recipe that it holds.

    Raises:
        InputError: the workspace has no recipe yet, or a damaged one.
    """
    path = folder / "recipe.yaml"
    if not path.is_file():
        raise InputError(f"{path}: no such file; run `raypipe reindex` first")
    check_regular(path)
    try:
        document = parse_yaml(path.read_bytes().decode(), origin=str)
        if document.problems:
            raise InputError(str(document.problems[0]))
        return str(document.data["name"])
    except (InputError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path}: expected the recipe of the last invocation, found none with a name; run the "
            "recipe again with the same --out"
        ) from error


def generation_to_read(folder: Path, number: int | None) -> tuple[str, int | None] | None:
    """(name, number or None for the newest) of a workspace's generations; None if it has none.

    A path that is no workspace, such as a collection file, has none.

    Raises:
        InputError: a generation is asked for where there is none.
    """
    if not (folder / "recipe.yaml").is_file() or not (folder / "workspace.json").is_file():
        numbers, name = [], ""
    else:
        name = line_of_generations(folder)
        numbers = generation_numbers(open_workspace(folder).stores, name)
    if not numbers and number is not None:
        raise InputError(
            f"--generation {number}: {folder} has no generations; `raypipe reindex` makes them"
        )
    return (name, number) if numbers else None
