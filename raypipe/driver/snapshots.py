"""A folder of dated snapshots of a collection: each becomes a generation, with its runs beside it.

    snapshots/snapshots.json                       what each snapshot is, costs and measures
    snapshots/QUERYSET/SYSTEM/SNAPSHOT/run.txt.gz  the hand-in of a system
    snapshots/QUERYSET/SNAPSHOT.tsv                query_id, system, measure, value

A snapshot is complete once snapshots.json names it. One that is named there, with the same settings
and files, is not run again.
"""

import gzip
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from raypipe.config.parts import QuerySet
from raypipe.config.paths import SNAPSHOT, missing_inputs, places_of, relocated
from raypipe.config.recipe import Recipe
from raypipe.data.files import natural_key
from raypipe.driver.mirror import address_of
from raypipe.driver.pipeline import Options, Outcome
from raypipe.driver.summaries import now
from raypipe.driver.upkeep.status import open_workspace
from raypipe.errors import InputError
from raypipe.package import VERSION
from raypipe.storage.compression import replacing_compressed
from raypipe.storage.files import replace_file
from raypipe.storage.generations import read_generation
from raypipe.storage.records import Json, digest
from raypipe.uris import dataset_id, in_bucket

FOLDER, RECORD, RUN = "snapshots", "snapshots.json", "run.txt.gz"
FORMAT = 1
_CHANGES = ("passages", "added", "removed", "changed", "rows_copied")
"""Facts of a generation that a snapshot's entry has too."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One snapshot, and the recipe that is run over it."""

    name: str
    recipe: Recipe
    unjudged: Sequence[str] = ()
    """Judgements that its folder lacks, by their keys."""


def snapshots_of(recipe: Recipe) -> list[Snapshot]:
    """The snapshots of the recipe's folder, in the natural order of their names.

    A recipe over ir_datasets names them itself. Judgements may be missing in a snapshot's
    folder: then its runs are not measured.

    Raises:
        InputError: no such folder, none in it, or every other input that a snapshot lacks.
    """
    named, of_datasets = recipe.collection.snapshots, recipe.collection.format == "ir-datasets"
    names = named if of_datasets else _folders_in(Path(named[0]))
    snapshots = [_snapshot(recipe, name) for name in names]
    problems = [
        f"snapshot {snapshot.name}: {problem}"
        for snapshot in snapshots
        for problem in missing_inputs(snapshot.recipe)
    ]
    if problems:
        raise InputError(problems)
    return snapshots


def _folders_in(folder: Path) -> list[str]:
    expected = "expected a folder of this machine with a folder for each snapshot"
    if in_bucket(str(folder)) or not folder.is_dir():
        raise InputError(f"collection.snapshots: {folder}: {expected}")
    inside = [path for path in folder.iterdir() if path.is_dir() and path.name[0] != "."]
    if not inside:
        raise InputError(f"collection.snapshots: {folder}: {expected}, found none")
    return [path.name for path in sorted(inside, key=natural_key)]


def _snapshot(recipe: Recipe, name: str) -> Snapshot:
    inputs = tuple(place.replace(SNAPSHOT, name) for place in recipe.collection.input)
    collection = recipe.collection.model_copy(update={"snapshots": (), "input": inputs})
    alone = recipe.model_copy(update={"collection": collection})
    located = relocated(alone, lambda place: place.replace(SNAPSHOT, name))
    queries, unjudged = dict[str, QuerySet](), list[str]()
    for key, query_set in located.queries.items():
        lacking = [
            field
            for field in ("qrels", "document_qrels")
            if SNAPSHOT in (getattr(recipe.queries[key], field) or "")
            and _is_missing(getattr(query_set, field))
        ]
        unjudged += [f"queries.{key}.{field}" for field in lacking]
        update = {**dict.fromkeys(lacking), **({"only_judged": False} if lacking else {})}
        queries[key] = query_set.model_copy(update=update)
    return Snapshot(name, located.model_copy(update={"queries": queries}), unjudged)


def _is_missing(place: str) -> bool:
    """Whether a file of this machine is not there; buckets and data sets are looked at later."""
    is_file = not in_bucket(place) and dataset_id(place) is None
    return is_file and not Path(place).exists()


Run = Callable[[Recipe, Options], Outcome]
"""Runs a recipe in the workspace to its end, and publishes it."""


def reindex_snapshots(
    recipe: Recipe, out: Path, options: Options, run: Run, say: Callable[[str], None]
) -> dict[str, Any]:
    """The record of all snapshots, once each of them is a generation and has its runs.

    From the first snapshot on that is new or has changed, all are run in order, so that the newest
    generation is the last snapshot.

    Raises:
        InputError: see `snapshots_of`.
        RaypipeError: whatever ended a snapshot's invocation; those before it stay complete.
    """
    snapshots = snapshots_of(recipe)
    if in_bucket(address := address_of(out)):
        raise InputError(
            f"--out {address}: the runs of snapshots are written to a folder; name one. Its "
            "stores may be in a bucket, by the recipe's key `stores`"
        )
    folder = Path(recipe.collection.snapshots[0])
    if folder.resolve() == (out / FOLDER).resolve():
        raise InputError(
            f"collection.snapshots: {folder}: runs would be written there; name another --out"
        )
    before = read_record(out)
    entries = {} if before is None else before["snapshots"]
    newest = max((entry["generation"] for entry in entries.values()), default=0)
    complete: dict[str, Any] = {}
    for snapshot in snapshots:
        made_of = _made_of(snapshot.recipe)
        entry = entries.get(snapshot.name)
        if entry is not None and snapshot is snapshots[-1] and entry["generation"] < newest:
            entry = None  # a later one is no longer there, and its generation is current
        if entry is not None and _is_complete(out, snapshot.name, entry, made_of):
            say(f"snapshot {snapshot.name}: complete as generation {entry['generation']}")
            complete[snapshot.name] = entry
            continue
        entries = {}  # what comes after it is published after it
        for key in snapshot.unjudged:
            say(f"snapshot {snapshot.name}: {key}: not there, so its runs are not measured")
        outcome = run(snapshot.recipe, replace(options, snapshot=snapshot.name))
        _remove_others(out, recipe, complete)
        complete[snapshot.name] = _entry(snapshot, out, outcome, made_of)
        _write_record(out, recipe, complete)
    _remove_others(out, recipe, complete)
    return {"recipe": recipe.name, "snapshots": complete}


def read_record(folder: Path) -> dict[str, Any] | None:
    """The content of a workspace's snapshots.json; None if it has none, or not in this format."""
    path = folder / FOLDER / RECORD
    try:
        body = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError:
        return None  # written over by somebody: every snapshot is looked at again
    return body if isinstance(body, dict) and body.get("format") == FORMAT else None


def _write_record(out: Path, recipe: Recipe, complete: Mapping[str, Any]) -> None:
    body = {"format": FORMAT, "recipe": recipe.name, "snapshots": complete}
    replace_file(out / FOLDER / RECORD, json.dumps(body, indent=1).encode() + b"\n")


def _remove_others(out: Path, recipe: Recipe, complete: Mapping[str, Any]) -> None:
    """Remove runs and measures of snapshots, systems and settings that are not those of `complete`.

    Else a hand-in would have runs of a snapshot that is gone, or of other settings. What the record
    does not name, a user's own, stays.
    """
    record = read_record(out)
    if record is None or record["snapshots"] == complete:
        return
    for path in _files_of(out, record["snapshots"]) - _files_of(out, complete):
        path.unlink(missing_ok=True)
        with suppress(OSError):  # a user's own file is in it
            path.parent.rmdir()
    _write_record(out, recipe, complete)


def _files_of(out: Path, entries: Mapping[str, Any]) -> set[Path]:
    """The runs and the measures that a record's entries name."""
    return {
        path
        for snapshot, entry in entries.items()
        for query_set, systems in entry["systems"].items()
        for path in (
            values_of(out, query_set, snapshot),
            *(run_of(out, query_set, system, snapshot) for system in systems),
        )
    }


def _made_of(recipe: Recipe) -> str:
    """A digest of the settings that a run may depend on, and of names, sizes and times of files."""
    apart = {"overrides", "resources", "runs", "stores"}
    settings = recipe.model_dump(mode="json", exclude=apart)
    files = [
        [key, *stamp]
        for key, place in places_of(recipe, without=("stores",)).items()
        for stamp in _stamps(Path(place))
    ]
    body = [VERSION, settings, recipe.resources.precision, files]
    return digest(json.dumps(body, sort_keys=True).encode())


def _stamps(path: Path) -> Iterator[list[Json]]:
    files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
    for file in files:
        if file.exists():
            stat = file.stat()
            yield [str(file), stat.st_size, stat.st_mtime_ns]


def _is_complete(out: Path, snapshot: str, entry: Mapping[str, Any], made_of: str) -> bool:
    runs = [
        run_of(out, query_set, system, snapshot)
        for query_set, systems in entry["systems"].items()
        for system in systems
    ]
    return entry["made_of"] == made_of and all(run.is_file() for run in runs)


def run_of(out: Path, query_set: str, system: str, snapshot: str) -> Path:
    """The file of a system's run over a snapshot."""
    return out / FOLDER / query_set / system / snapshot / RUN


def values_of(out: Path, query_set: str, snapshot: str) -> Path:
    """The file with the measures of a snapshot's runs, by query."""
    return out / FOLDER / query_set / f"{snapshot}.tsv"


def _entry(snapshot: Snapshot, out: Path, outcome: Outcome, made_of: str) -> dict[str, Any]:
    """The snapshot's entry in the record, written after its runs and measures."""
    summary, name = outcome.summary, snapshot.name
    number = summary["generation"]["number"]
    facts = read_generation(open_workspace(out).stores, snapshot.recipe.name, number).facts
    for query_set, systems in summary["systems"].items():
        for system in systems:
            _pack(out, query_set, system, name)
        measured = out / "measures" / f"{query_set}.tsv"
        if query_set in summary["measures"]:
            replace_file(values_of(out, query_set, name), measured.read_bytes())
        else:
            values_of(out, query_set, name).unlink(missing_ok=True)
    return {
        "made_of": made_of,
        "generation": number,
        "ended": now(),
        **{fact: facts[fact] for fact in _CHANGES if fact in facts},
        "seconds": facts["seconds"],
        "device": summary["device"],
        "versions": summary["versions"],
        "stages": {
            store: {"copied": made["copied"], **made["computed"]}
            for store, made in summary["stages"].items()
        },
        "systems": {
            query_set: {
                system: {key: described[key] for key in ("model", "start_weights")}
                for system, described in systems.items()
            }
            for query_set, systems in summary["systems"].items()
        },
        "measures": summary["measures"],
    }


def _pack(out: Path, query_set: str, system: str, snapshot: str) -> None:
    """Write the system's run, packed by gzip; the same run has the same bytes."""
    target = run_of(out, query_set, system, snapshot)
    run = out / "runs" / query_set / f"{system}.trec"
    packed = run.with_name(f"{run.name}.gz")
    with run.open("rb") if run.exists() else gzip.open(packed) as source:
        with replacing_compressed(target) as stream:
            shutil.copyfileobj(source, stream, 1 << 20)
