"""The main job: runs a recipe to completion in a workspace."""

import json
import os
import platform
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from raypipe.config import Recipe, missing_inputs, resolved_yaml, select
from raypipe.config.paths import places_of
from raypipe.driver.devices import Devices
from raypipe.driver.execute import Execution, StageResult, Watcher
from raypipe.driver.forecast.forecast import check_forecast, run_forecast
from raypipe.driver.generations.drift import DriftLimit, limits_of
from raypipe.driver.generations.publish import Built, Publication, publish
from raypipe.driver.generations.retire import retire_older
from raypipe.driver.inputs import with_local_files
from raypipe.driver.invocation import invocation, work_begins
from raypipe.driver.measure import Measurement, measure
from raypipe.driver.mirror import address_of, output_hash, write_out
from raypipe.driver.models import open_or_tell, with_commits
from raypipe.driver.place import LazyBackends, WorkPlace, backends_at, devices_at, sizing_of
from raypipe.driver.recipe.basis import Basis, basis_at
from raypipe.driver.recipe.collection import unread
from raypipe.driver.recipe.compare import refuse_changes
from raypipe.driver.recipe.fit import refuse_unfit
from raypipe.driver.recipe.graph import systems_of
from raypipe.driver.recipe.read_first import collection_problems, read_first
from raypipe.driver.recipe.system import System
from raypipe.driver.signals import interruptible
from raypipe.driver.workspace import Workspace, refuse_users_files
from raypipe.errors import InputError, LimitError, RaypipeError, ending_of
from raypipe.names import StoreName
from raypipe.package import VERSION
from raypipe.storage.generations import Generation, generations_held, record_numbers
from raypipe.storage.records import digest
from raypipe.vocabulary import Unit


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the command line that are not part of the recipe."""

    until: str | None = None
    frozen: bool = False
    ray_address: str | None = None
    """Address of a cluster to join; None starts one for this process alone."""
    allow_open_cluster: bool = False
    inline: bool = False
    """Work in this process, whatever backend the recipe names."""
    why: str = ""
    """Why it runs inline or on Ray, beside the line of devices."""
    single: bool = False
    """A verb of one stage: its run stands beside those that the workspace has."""
    tokens_of: str | None = None
    """A model for which the collection is also split into word pieces."""
    reading: tuple[str, int | None] | None = None
    """Name and number (None: the newest) of a generation whose collection and indexes are read."""
    reindex: bool = False
    """Publish what was built as the next generation, named as the recipe."""
    max_drift: tuple[str, ...] = ()
    keep: int | None = None
    """Retire all but so many generations; gc deletes what only they used."""


@dataclass
class Outcome:
    """What is printed after an invocation."""

    summary: dict[str, Any]
    table: str = ""


@dataclass(frozen=True)
class Pipeline:
    """One execution of a recipe in a workspace: what its steps share."""

    recipe: Recipe
    """In the precision of the devices, with the commits of its models."""
    selected: list[str]
    options: Options
    workspace: Workspace
    summary: dict[str, Any]
    """Filled step by step; see `invocation`."""
    chosen: Devices
    backends: LazyBackends
    next_number: int
    """Of the next generation, when the invocation began."""
    base: Generation | None
    """The current generation, on which the next one is built."""
    reading: Generation | None
    """A generation whose collection and indexes are read, whatever the recipe's files hold."""
    watcher: Watcher
    say: Callable[[str], None]
    should_stop: Callable[[], RaypipeError | None]


def run_pipeline(
    recipe: Recipe,
    out: Path,
    options: Options = Options(),
    *,
    watcher: Watcher,
    say: Callable[[str], None] = lambda line: None,
) -> Outcome:
    """Runs every selected stage to completion; measures and summarises the results.

    summary.json says `running` from the start, and at the end how the invocation ended.

    Raises:
        RaypipeError: whatever ended the invocation; summary.json has its exit code.
    """
    selected = select(recipe, options.until)
    limits = limits_of(options.max_drift, recipe.evaluate.measures if recipe.evaluate else ())
    problems = missing_inputs(recipe, collection=options.reading is None)
    if problems:
        raise InputError(problems)
    refuse_users_files(out, _names(recipe, selected))
    if recipe.stores == str((out / "stores").absolute()):  # even if the workspace is moved
        recipe = recipe.model_copy(update={"stores": None})
    workspace = Workspace(out, recipe.stores)
    with (
        invocation(workspace, recipe.name) as summary,
        interruptible() as should_stop,
        generations_held(
            workspace.stores, recipe.name, builds=options.reindex, reading=options.reading
        ) as (number, base, reading),
    ):
        began = time.monotonic()
        recipe, chosen, backends = _place(recipe, options, say, should_stop)
        recipe, problems = with_commits(recipe, out, say)
        pipeline = Pipeline(
            recipe=recipe,
            selected=selected,
            options=options,
            workspace=workspace,
            summary=summary,
            chosen=chosen,
            backends=backends,
            next_number=number,
            base=base,
            reading=reading,
            watcher=watcher,
            say=say,
            should_stop=should_stop,
        )
        try:
            basis, execution, judgements = _open(pipeline, problems)
            _forecast(pipeline, basis, execution)
            refuse_unfit(basis, judgements)
            last = summary.get("last_complete", {})  # until the work begins
            systems = _make_stores(pipeline, basis)
            measurement = measure(basis, workspace, systems, execution.results, judgements, last)
            _summarise(pipeline, measurement, execution.results)
            if options.reindex:
                seconds = time.monotonic() - began
                built = Built(basis, systems, execution.results, measurement, seconds)
                _publish(pipeline, limits, built)
            _remove_stale(pipeline)
            if selected == [*recipe.stages]:
                workspace.forget_sources()
        finally:
            backends.close()
    return Outcome(summary, measurement.table)


def _names(recipe: Recipe, selected: Sequence[str]) -> list[str]:
    """Names of the files that an invocation may write for people."""
    names = ["recipe.yaml", *(["table.md"] if recipe.evaluate else [])]
    for each in recipe.queries:
        names += [f"measures/{each}.tsv"] if recipe.evaluate else []
        names += [f"runs/{each}/{s}.{end}" for s in selected for end in recipe.runs.endings]
    return names


def _place(
    recipe: Recipe,
    options: Options,
    say: Callable[[str], None],
    should_stop: Callable[[], RaypipeError | None],
) -> tuple[Recipe, Devices, LazyBackends]:
    """The recipe in the precision of the devices, the devices, and their backend."""
    wanted = recipe.resources
    if options.inline:  # one worker, with all cores
        wanted = wanted.model_copy(update={"backend": "inline", "actors": 1})
    place = WorkPlace(wanted.backend, options.ray_address, options.allow_open_cluster)
    chosen = devices_at(place, wanted, should_stop)
    why = f", {'inline' if wanted.backend == 'inline' else 'on Ray'}: {options.why}"
    say(chosen.line() + (why if options.why else ""))
    precise = recipe.resources.model_copy(update={"precision": chosen.precision})
    recipe = recipe.model_copy(update={"resources": precise})
    return recipe, chosen, backends_at(place, chosen)


def _open(
    pipeline: Pipeline, problems: Sequence[str]
) -> tuple[Basis, Execution, Mapping[tuple[str, Unit], pa.Table]]:
    """The recipe's stores, what completes them, and the judgements; nothing is computed yet.

    `problems` were found before, and are told with those that are found here.

    Raises:
        InputError: every problem of the models, inputs and judgements.
        RefusedError: `frozen`, and a setting is not the last invocation's.
    """
    recipe, options, say = pipeline.recipe, pipeline.options, pipeline.say
    workspace = pipeline.workspace
    models, found = open_or_tell(recipe, pipeline.selected, problems, say)
    reads_files = options.reading is None
    frozen = options.frozen and pipeline.summary["finished_before"]
    if options.frozen and not frozen:
        say(
            f"--frozen: no earlier invocation finished in {address_of(workspace.folder)}, so "
            "nothing is compared; the next one is compared with this one"
        )
    named, sources = with_local_files(
        recipe,
        workspace,
        say,
        collection=reads_files,
        frozen=frozen,
        on_making=pipeline.backends.warm,
    )
    if frozen and not found:
        refuse_changes(named, workspace, models, written=recipe)
    if reads_files:
        found = [*found, *collection_problems(named)]
    judgements = read_first(named, found)
    for line in unread(named.collection) if reads_files else ():
        say(line)
    wanted = recipe.resources
    execution = Execution(
        workspace=workspace,
        backends=pipeline.backends,
        sizing=sizing_of(wanted, pipeline.chosen),
        watcher=pipeline.watcher,
        max_failed_rows=wanted.max_failed_rows,
        numerics_one=wanted.numerics == "one",
        reuse=wanted.reuse,
        base=pipeline.base,
        reading=pipeline.reading,
        should_stop=pipeline.should_stop,
        on_change=say,
    )
    return basis_at(named, execution, pipeline.chosen, sources, models), execution, judgements


def _forecast(pipeline: Pipeline, basis: Basis, execution: Execution) -> None:
    """Say what the stores will take; nothing of tokens and searches alone.

    Raises:
        StorageError: the stores do not fit.
    """
    if pipeline.options.reading is not None or pipeline.options.tokens_of is not None:
        return
    forecast = run_forecast(
        basis,
        pipeline.selected,
        pipeline.chosen,
        workspace=pipeline.workspace,
        compute=execution.ensure,
    )
    if forecast is not None:
        pipeline.say(str(forecast))
        pipeline.watcher.expects(len(forecast.lines))
        pipeline.summary["plan"] = [line.store for line in forecast.lines]
        pipeline.workspace.tell_stores()
        check_forecast(forecast, pipeline.workspace)


def _make_stores(pipeline: Pipeline, basis: Basis) -> dict[str, list[System]]:
    """The selected stages, run to completion, by query set; the work begins here."""
    workspace = pipeline.workspace
    work_begins(workspace, pipeline.summary)
    write_out(workspace.folder, "recipe.yaml", resolved_yaml(pipeline.recipe).encode())
    workspace.wrote(workspace.folder / "recipe.yaml")
    if pipeline.options.tokens_of is not None:
        basis.tokens(pipeline.options.tokens_of)
    return systems_of(basis, pipeline.selected)


def _summarise(
    pipeline: Pipeline,
    measurement: Measurement,
    results: Mapping[StoreName, StageResult],
) -> None:
    """Fill the summary before a limit may refuse what was built."""
    summary = pipeline.summary
    summary.pop("plan", None)  # from here on `stages` has it
    summary |= summary_of(measurement, results, pipeline.chosen)


def _remove_stale(pipeline: Pipeline) -> None:
    """Remove runs, measures and tables of the recipe that do not stand for it and its inputs.

    A whole invocation removes all that earlier ones of its recipe wrote and it did not. After a
    part of the stages, the others' files stay where the recipe and the stores that both parts read
    are the same. Files of recipes of other names, and of single stages, stay; so does a file that
    the recipe reads, and one that somebody changed, which is no file of the workspace any more.
    """
    workspace, summary, name = pipeline.workspace, pipeline.summary, pipeline.recipe.name
    earlier = summary.get("earlier", {})
    written = {file for file in workspace.written if _is_result(file)}
    made_of = summary["made_of"] = {
        other: {**its, "files": sorted({*its["files"]} - written)}
        for other, its in earlier.get("made_of", {}).items()
    }
    if pipeline.options.single:
        return
    stores = {*workspace.used}
    own, before = {"recipe": _digest(pipeline.recipe)}, made_of.get(name)
    if before is not None and pipeline.selected != [*pipeline.recipe.stages]:
        if before["recipe"] == own["recipe"] and _agree(before["stores"], stores):
            written, stores = written | {*before["files"]}, stores | {*before["stores"]}
    made_of[name] = {**own, "stores": sorted(stores), "files": sorted(written)}
    inputs = {os.path.realpath(place) for place in places_of(pipeline.recipe).values()}
    files, removed = earlier.get("files", {}), []
    for file in () if before is None else before["files"]:
        path = workspace.folder / file
        if file in written or file not in files or os.path.realpath(path) in inputs:
            continue
        sha256 = files.pop(file)
        if not path.is_symlink() and output_hash(workspace.folder, file) == sha256:
            workspace.remove(path)  # else it is somebody else's by now
            removed.append(file)
    if removed:
        pipeline.say(
            "removed what an earlier invocation wrote and the recipe no longer does: "
            f"{', '.join(removed)}"
        )


def _is_result(file: str) -> bool:
    return file == "table.md" or file.startswith(("runs/", "measures/"))


def _digest(recipe: Recipe) -> str:
    """A hash of all settings that a run may depend on."""
    apart = {"evaluate", "overrides", "resources", "runs", "stores"}
    body = recipe.model_dump(mode="json", exclude=apart)
    return digest(json.dumps([body, recipe.resources.precision], sort_keys=True).encode())


def _agree(before: Collection[str], now: Collection[str]) -> bool:
    """Whether each store that both invocations read has the same fingerprint."""
    names = {place.partition("/")[0] for place in before}
    return {place for place in now if place.partition("/")[0] in names} <= {*before}


def _publish(pipeline: Pipeline, limits: Sequence[DriftLimit], built: Built) -> None:
    """The next generation, unless a limit refuses it; see `publish`."""
    summary, stores = pipeline.summary, pipeline.workspace.stores
    publication = Publication(pipeline.next_number, pipeline.base, limits)
    try:
        summary["generation"] = publish(pipeline.workspace, publication, built)
    except LimitError:
        _retire(pipeline)  # night after night may be refused
        raise
    _retire(pipeline)
    summary["generations"] = record_numbers(stores, pipeline.recipe.name)


def _retire(pipeline: Pipeline) -> None:
    """Retire what `--keep` does not keep; what was built is published or refused all the same."""
    if pipeline.options.keep is None:
        return
    try:
        retire_older(pipeline.workspace.stores, pipeline.recipe.name, pipeline.options.keep)
    except OSError as error:
        why = ending_of(error).reason
        pipeline.say(f"warning: of the older generations none was retired: {why}")


def summary_of(
    measurement: Measurement, results: Mapping[StoreName, StageResult], chosen: Devices
) -> dict[str, Any]:
    """The entries for systems, measures, notes, stages, device and versions."""
    return {
        "systems": measurement.systems,
        "measures": measurement.means,
        "differences": measurement.differences,
        "notes": measurement.notes,
        "made_from": {"sha256": measurement.made_from, "files": measurement.files},
        "stages": {
            str(store): {
                "seconds": round(result.seconds, 2),
                "rows": result.num_rows,
                "copied": result.num_copied,
                "computed": {
                    "rows": result.num_rows_computed - result.num_copied,
                    "tokens": result.num_tokens,
                    "bytes": result.num_bytes,
                    "cpu_seconds": round(result.cpu_seconds, 2),
                },
                "shards": {
                    "planned": result.num_shards,
                    "reused": result.num_shards_reused,
                    "quarantined": result.num_quarantined,
                },
                "coverage": result.coverage,
                "reused": result.reused,
                "fingerprint": result.fingerprint,
            }
            for store, result in results.items()
        },
        "device": chosen.line().removeprefix("device: "),
        "versions": {
            "raypipe": VERSION,
            "python": platform.python_version(),
            "torch": chosen.torch,
        },
    }
