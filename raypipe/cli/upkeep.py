"""The commands status, verify, gc, evaluate and doctor."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from raypipe.cli.options import (
    MEASURED,
    AsJson,
    Folder,
    Measures,
    Qrels,
    Ties,
    Verbose,
    refuse_missing,
)
from raypipe.cli.pipeline import line_of
from raypipe.cli.terminal import show_columns
from raypipe.errors import CorruptError, InputError

if TYPE_CHECKING:
    from raypipe.driver.upkeep.status import Status


def lines_of(invocation: "Status", verbose: bool) -> Iterator[str]:
    """How the invocation ended or how far it is, which generation is current, and the stores.

    There is a line for each store that is not complete; the complete ones are counted, or listed
    too if `verbose`.
    """
    code = [] if invocation.state == "running" else [f"exit {invocation.exit_code}"]
    reason = [] if invocation.reason == invocation.state else [invocation.reason]
    yield f"{invocation.state}: {', '.join([*code, *reason])}"
    times = (("began", invocation.began), ("ended", invocation.ended))
    known = ", ".join(f"{word} {when}" for word, when in times if when is not None)
    if known:
        yield f"  {known}"
    if invocation.generation is not None:
        yield f"  current{_since(invocation.generation)}: {line_of(invocation.generation)}"
    for refused in invocation.refused:
        yield f"  refused{_since(refused)}: {line_of(refused)}"
    complete = [of for of in invocation.stores.values() if of["state"] == "complete"]
    for store, progress in invocation.stores.items():
        if verbose or progress not in complete:
            yield f"  {store}: {_told(progress)}"
    if verbose:
        return
    earlier = sum(of.get("earlier", False) for of in complete)
    if len(complete) > earlier:
        reused = sum(of.get("reused", False) for of in complete)
        num_stores = len(invocation.stores) - earlier
        yield f"  {len(complete) - earlier} of {num_stores} stores complete, {reused} reused"
    if earlier:
        yield f"  {earlier} stores of earlier invocations, complete"


def _since(generation: Mapping[str, Any]) -> str:
    """` for 7:30:00`, as long as its age is known."""
    age = generation["age_seconds"]
    return "" if age is None else f" for {timedelta(seconds=age)}"


def _told(progress: Mapping[str, Any]) -> str:
    """`at work 3 of 8 shards, 1,200 of 8,000 rows, 0:00:23 left`."""
    line = str(progress["state"])
    if "done" in progress:
        line += f" {progress['done']} of {progress['shards']} shards"
        line += f", {progress['rows_done']:,} of {progress['rows']:,} rows"
    if line.startswith("at work") and "seconds_left" in progress:
        line += f", {progress['rows_per_second']:,.1f} rows/s"
        line += f", {timedelta(seconds=progress['seconds_left'])} left"
    line += ", reused" if progress.get("reused") else ""
    if progress.get("earlier"):
        begun = progress["state"] in ("waiting", "not begun")
        line += ", one of an earlier invocation is there" if begun else ", of an earlier invocation"
    return line


def status(folder: Folder, verbose: Verbose = False, as_json: AsJson = False) -> int:
    """Say how the last run ended, or how far it is; exits with its code."""
    from raypipe.driver.upkeep.status import status as status_of

    invocation = status_of(folder)
    if as_json:
        print(json.dumps(asdict(invocation)))
        return invocation.exit_code
    print("\n".join(lines_of(invocation, verbose)))
    return invocation.exit_code


def verify(folder: Folder, as_json: AsJson = False) -> None:
    """Compare every file with what was written; exits with 3 if one is damaged or gone."""
    from raypipe.driver.upkeep.status import open_workspace
    from raypipe.driver.upkeep.verify import verify as damages_of

    damages = damages_of(open_workspace(folder))
    if as_json:
        print(json.dumps({"damaged": [asdict(damage) for damage in damages]}))
    for damage in damages if not as_json else ():
        print(f"{damage.name}: {damage.problem}\n  remedy: {damage.remedy}")
    if damages:
        raise CorruptError(
            f"{folder}: {len({damage.name for damage in damages})} damaged or missing files"
        )
    if not as_json:
        print("every file has the bytes that were written")


def gc(
    folder: Folder,
    yes: Annotated[bool, typer.Option("--yes", help="Delete what is listed.")] = False,
    as_json: AsJson = False,
) -> None:
    """List what no workspace refers to and is a day old; delete it with --yes."""
    from raypipe.driver.upkeep.gc import delete, find_garbage
    from raypipe.driver.upkeep.status import open_workspace

    workspace = open_workspace(folder)
    if yes:
        workspace.settle()
    garbage = find_garbage(workspace)
    names = garbage.names
    try:
        deleted = delete(workspace, garbage) if yes else []
    except OSError:
        if not as_json:
            print("\n".join([*names, "some of them were deleted before storage failed"]))
        raise
    if as_json:
        body = {"names": names, "bytes": garbage.num_bytes, "left": garbage.strangers}
        print(json.dumps({**body, "deleted": deleted}))
        return
    print("\n".join([*names, f"{len(names)} files, {garbage.num_bytes:,} bytes"]))
    for name in garbage.strangers:
        print(f"not part of a store, left alone: {name}")
    if yes and len(deleted) < len(names):
        print(f"left, since used again: {len(names) - len(deleted)}")


def evaluate(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Run files: TREC, MS MARCO, CSV, Parquet."),
    ],
    qrels: Qrels,
    measures: Measures = MEASURED,
    break_ties: Ties = "id",
    as_json: AsJson = False,
) -> None:
    """Measure run files against judgements."""
    from raypipe.data.qrels import read_qrels
    from raypipe.evaluation.measures import evaluate_file
    from raypipe.evaluation.names import measures_in

    refuse_missing(*runs, qrels)
    names = measures_in(measures)
    judged = read_qrels(qrels)
    measured = {
        str(path): evaluate_file(path, judged, names, break_ties=break_ties, qrels_name=str(qrels))
        for path in runs
    }
    if as_json:
        print(json.dumps({run: {"mean": m.mean, "n": m.num_topics} for run, m in measured.items()}))
        return
    first = next(iter(measured.values()))
    header = ["run", *[f"{name} (n={first.num_topics[name]})" for name in names]]
    rows = [[run, *[f"{of.mean[name]:.4f}" for name in names]] for run, of in measured.items()]
    show_columns([header, *rows])


def doctor(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where the work would be stored.")
    ] = Path("."),
    as_json: AsJson = False,
) -> None:
    """Test what raypipe needs here: Python, disk, torch, Ray, the model, Java and Lucene."""
    from raypipe.driver.upkeep.doctor import examine

    trials = examine(folder)
    if as_json:
        print(json.dumps([{"name": t.name, "ok": t.ok, "told": t.result} for t in trials]))
    else:
        print("\n".join(f"{'ok' if t.ok else 'FAILED':6} {t.name}: {t.result}" for t in trials))
    failed = [f"{t.name}: {t.result}" for t in trials if not t.ok]
    if failed:
        raise InputError(failed)
