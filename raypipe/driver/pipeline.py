"""The main job: runs a recipe to completion in a workspace."""

import json
import os
import platform
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raypipe.config.paths import missing_inputs, places_of
from raypipe.config.recipe import Recipe, select
from raypipe.config.resolved import resolved_yaml
from raypipe.driver.devices import Devices
from raypipe.driver.execute import Completed, Execution, Watcher
from raypipe.driver.forecast.forecast import Forecast, check_forecast, run_forecast
from raypipe.driver.inputs import with_local_files
from raypipe.driver.invocation import invocation
from raypipe.driver.measure import Measurement, measure
from raypipe.driver.mirror import address_of, output_hash, write_out
from raypipe.driver.models import open_or_tell, with_commits
from raypipe.driver.place import WorkPlace, place_for
from raypipe.driver.recipe.collection import unread
from raypipe.driver.recipe.fit import refuse_unfit
from raypipe.driver.recipe.graph import Graph, graph_at
from raypipe.driver.recipe.read_first import collection_problems, read_first
from raypipe.driver.signals import interruptible
from raypipe.driver.workspace import Workspace, refuse_users_files
from raypipe.errors import InputError, LimitError, RefusedError, ending_of
from raypipe.markdown import Text
from raypipe.models.folder.model_folder import ModelFolder
from raypipe.names import StoreName
from raypipe.package import VERSION
from raypipe.storage.records import digest
from raypipe.storage.storage import Storage

if TYPE_CHECKING:
    from raypipe.driver.generations.drift import DriftLimit
    from raypipe.driver.generations.publish import Built, Publication
    from raypipe.storage.generations import Generation


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
    snapshot: str | None = None
    """The name of the snapshot that is published."""


@dataclass
class Outcome:
    """The results that are printed after an invocation."""

    summary: dict[str, Any]
    table: Text = Text(())


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
        InputError: every problem of the recipe, its models, files and judgements, before any work.
        RefusedError: `frozen`, and a setting is not the last invocation's.
        RaypipeError: whatever else ended the invocation; summary.json has its exit code.
    """
    # 1. The recipe.
    selected, reads_files = select(recipe, options.until), options.reading is None
    limits = _limits(options.max_drift, recipe)
    problems = missing_inputs(recipe, collection=reads_files)
    if problems:
        raise InputError(problems)

    # 2. The workspace.
    names = _names(recipe, selected)
    refuse_users_files(out, names)
    _refuse_own_inputs(recipe, out, names)
    if recipe.stores == str((out / "stores").absolute()):  # even if the workspace is moved
        recipe = recipe.model_copy(update={"stores": None})
    workspace = Workspace(out, recipe.stores)
    with (
        invocation(workspace, recipe.name) as summary,
        interruptible() as should_stop,
        _generations(workspace.stores, recipe.name, options) as (next_number, base, reading),
    ):
        # 3. The place where it is computed.
        began = time.monotonic()
        at = WorkPlace(recipe.resources.backend, options.ray_address, options.allow_open_cluster)
        with place_for(recipe.resources, at, options.inline, should_stop) as place:
            say(place.devices.line() + _why(options, at))
            recipe = recipe.model_copy(update={"resources": place.resources})

            # 4. Models and files; nothing is computed yet.
            recipe, problems = with_commits(recipe, out, say)
            models, problems = open_or_tell(recipe, selected, problems, say)
            frozen = options.frozen and summary["finished_before"]
            if options.frozen and not frozen:
                say(
                    "--frozen: no earlier invocation finished in "
                    f"{address_of(workspace.folder)}, so nothing is compared; the next one is "
                    "compared with this one"
                )
            named, sources = with_local_files(
                recipe,
                workspace,
                say,
                collection=reads_files,
                frozen=frozen,
                on_making=place.backends.warm,
            )
            if frozen and not problems:
                models = _unchanged(named, recipe, workspace, models, say)
            if reads_files:
                problems = [*problems, *collection_problems(named)]
            judgements = read_first(named, problems)
            for line in unread(named.collection) if reads_files else ():
                say(line)

            # 5. The forecast, judgements that fit, and models that compute what they should.
            execution = Execution(
                workspace=workspace,
                backends=place.backends,
                sizing=place.sizing,
                watcher=watcher,
                max_failed_rows=recipe.resources.max_failed_rows,
                numerics_one=recipe.resources.numerics == "one",
                reuse=recipe.resources.reuse,
                base=base,
                reading=reading,
                should_stop=should_stop,
                on_change=say,
            )
            proved: dict[str, ModelFolder] | None = None
            while models != proved:  # once more with a library's model in the place of a packed one
                models = models if proved is None else proved
                graph, forecast = graph_at(named, execution, place.devices, sources, models), None
                if reads_files and options.tokens_of is None:
                    forecast = _forecast(graph, selected, execution, place.devices)
                refuse_unfit(graph, judgements)
                proved = _computable(graph, forecast, workspace.stores, say)
            if forecast is not None:
                say(str(forecast))
                watcher.expects(len(forecast.lines))
                summary["plan"] = [line.store for line in forecast.lines]
                workspace.tell_stores()

            # 6. The stores.
            last = workspace.work_begins()
            write_out(workspace.folder, "recipe.yaml", resolved_yaml(recipe).encode())
            workspace.wrote(workspace.folder / "recipe.yaml")
            if options.tokens_of is not None:
                graph.tokens(options.tokens_of)
            systems = graph.systems(selected)

            # 7. The runs and their measures.
            measured = measure(graph, workspace, systems, execution.results, judgements, last)
            summary.pop("plan", None)  # from here on `stages` has it
            summary |= summary_of(measured, execution.results, place.devices)

            # 8. The next generation, and the end.
            if options.reindex:
                from raypipe.driver.generations.publish import Built, Publication

                seconds = time.monotonic() - began
                built = Built(
                    graph, systems, execution.results, measured, seconds, options.snapshot
                )
                publication = Publication(next_number, base, limits)
                _publish(workspace, publication, built, options.keep, summary, say)
            _remove_stale(recipe, selected, options, workspace, summary, say)
            if selected == [*recipe.stages]:
                workspace.forget_sources()
    return Outcome(summary, measured.table)


def _generations(
    stores: Storage, name: str, options: Options
) -> AbstractContextManager[tuple[int, "Generation | None", "Generation | None"]]:
    """The next number, the generation to build on and the one to read; see `generations_held`.

    Whoever does neither looks at none.
    """
    if not options.reindex and options.reading is None:
        return nullcontext((0, None, None))
    from raypipe.storage.generations import generations_held

    return generations_held(stores, name, builds=options.reindex, reading=options.reading)


def _names(recipe: Recipe, selected: Sequence[str]) -> list[str]:
    """Names of the files that an invocation may write for people."""
    names = ["recipe.yaml", *(["table.md"] if recipe.evaluate else [])]
    for each in recipe.queries:
        names += [f"measures/{each}.tsv"] if recipe.evaluate else []
        ranked = [stage for stage in selected if recipe.stages[stage].produces == "run"]
        names += [f"runs/{each}/{s}.{end}" for s in ranked for end in recipe.runs.endings]
    return names


def _refuse_own_inputs(recipe: Recipe, out: Path, names: Sequence[str]) -> None:
    """Returns nothing if an invocation reads none of the files that it writes.

    What it read would be lost, and the same command, run again, would read its own result.

    Raises:
        InputError: such files, with their keys.
    """
    written = {os.path.realpath(out / name) for name in names}
    problems = [
        f"{key}: {place}: it is read, and would be written over by this invocation; name another "
        "--out, or copy the file first"
        for key, place in places_of(recipe).items()
        if os.path.realpath(place) in written
    ]
    if problems:
        raise InputError(problems)


def _why(options: Options, at: WorkPlace) -> str:
    """Why a verb of one stage runs inline or on Ray, behind the line of devices."""
    if not options.why:
        return ""
    inline = options.inline or at.backend == "inline"
    return f", {'inline' if inline else 'on Ray'}: {options.why}"


def _forecast(
    graph: Graph,
    selected: Sequence[str],
    execution: Execution,
    chosen: Devices,
) -> Forecast | None:
    """The forecast of the stores, which fit; None where an input is bad.

    Raises:
        StorageError: the stores do not fit.
    """
    workspace = execution.workspace
    forecast = run_forecast(
        graph,
        selected,
        chosen,
        workspace=workspace,
        compute=execution.ensure,
    )
    if forecast is not None:
        check_forecast(forecast, workspace)
    return forecast


def _unchanged(
    named: Recipe,
    recipe: Recipe,
    workspace: Workspace,
    models: Mapping[str, ModelFolder],
    say: Callable[[str], None],
) -> dict[str, ModelFolder]:
    """The models as they may be computed, where no setting is another than the last invocation's.

    A proof that is not kept any more is made where a store differs: it decides who computes.

    Raises:
        RefusedError: see `refuse_changes`.
    """
    from raypipe.driver.proof.proof import computable
    from raypipe.driver.recipe.compare import refuse_changes

    before = computable(models, workspace.stores, make=False)
    try:
        refuse_changes(named, workspace, before, written=recipe)
    except RefusedError:
        proved = computable(models, workspace.stores, say)
        if proved == before:
            raise
        refuse_changes(named, workspace, proved, written=recipe)
        return proved
    return before


def _computable(
    graph: Graph, forecast: Forecast | None, stores: Storage, say: Callable[[str], None]
) -> dict[str, ModelFolder]:
    """The graph's models, of which those that compute rows in this invocation are proved.

    Without a forecast that is any of them.

    Raises:
        InputError: see `computable`.
    """
    models = {f"models.{name}": model for name, model in graph.models.items()}
    if forecast is not None:
        at_work = {(each.model.path, each.model.weights_sha256) for each in forecast.inputs}
        models = {k: m for k, m in models.items() if (m.path, m.weights_sha256) in at_work}
    if not models:
        return {**graph.models}
    from raypipe.driver.proof.proof import computable

    computed = {k.partition(".")[2]: m for k, m in computable(models, stores, say).items()}
    return {**graph.models, **computed}


def _remove_stale(
    recipe: Recipe,
    selected: Sequence[str],
    options: Options,
    workspace: Workspace,
    summary: dict[str, Any],
    say: Callable[[str], None],
) -> None:
    """Remove runs, measures and tables of the recipe that do not stand for it and its inputs.

    A whole invocation removes all that earlier ones of its recipe wrote and it did not. After a
    part of the stages, the others' files stay where the recipe and the stores that both parts read
    are the same. Files of recipes of other names, and of single stages, stay; so does a file that
    the recipe reads, and one that somebody changed, which is no file of the workspace any more.
    """
    name, earlier = recipe.name, summary["earlier"]
    written = {file for file in workspace.written if _is_result(file)}
    made_of = summary["made_of"] = {
        other: {**its, "files": sorted({*its["files"]} - written)}
        for other, its in earlier["made_of"].items()
    }
    if options.single:
        return
    stores = {*workspace.used}
    own, before = {"recipe": _digest(recipe)}, made_of.get(name)
    if before is not None and selected != [*recipe.stages]:
        if before["recipe"] == own["recipe"] and _agree(before["stores"], stores):
            written, stores = written | {*before["files"]}, stores | {*before["stores"]}
    made_of[name] = {**own, "stores": sorted(stores), "files": sorted(written)}
    inputs = {os.path.realpath(place) for place in places_of(recipe).values()}
    files, removed = earlier["files"], []
    for file in () if before is None else before["files"]:
        path = workspace.folder / file
        if file in written or file not in files or os.path.realpath(path) in inputs:
            continue
        sha256 = files.pop(file)
        if not path.is_symlink() and output_hash(workspace.folder, file) == sha256:
            workspace.remove(path)  # else it is somebody else's by now
            removed.append(file)
    if removed:
        say(
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


def _limits(texts: Sequence[str], recipe: Recipe) -> Sequence["DriftLimit"]:
    """The limits on drift; a run without any does not load what compares generations."""
    if not texts:
        return ()
    from raypipe.driver.generations.drift import limits_of

    return limits_of(texts, recipe.evaluate.measures if recipe.evaluate else ())


def _publish(
    workspace: Workspace,
    publication: "Publication",
    built: "Built",
    keep: int | None,
    summary: dict[str, Any],
    say: Callable[[str], None],
) -> None:
    """The next generation, unless a limit refuses it; see `publish`."""
    from raypipe.driver.generations.publish import publish
    from raypipe.storage.generations import record_numbers

    stores, name = workspace.stores, built.graph.recipe.name
    try:
        summary["generation"] = publish(workspace, publication, built)
    except LimitError:
        _retire(stores, name, keep, say)  # night after night may be refused
        raise
    _retire(stores, name, keep, say)
    summary["generations"] = record_numbers(stores, name)


def _retire(stores: Storage, name: str, keep: int | None, say: Callable[[str], None]) -> None:
    """Retire what `--keep` does not keep; what was built is published or refused all the same."""
    if keep is None:
        return
    from raypipe.driver.generations.retire import retire_older

    try:
        retire_older(stores, name, keep)
    except OSError as error:
        say(f"warning: of the older generations none was retired: {ending_of(error).reason}")


def summary_of(
    measurement: Measurement, results: Mapping[StoreName, Completed], chosen: Devices
) -> dict[str, Any]:
    """The entries of the measurement, and those for stages, device and versions."""
    return {
        **measurement.entries,
        "stages": {str(store): completed.to_json() for store, completed in results.items()},
        "device": chosen.line().removeprefix("device: "),
        "versions": {
            "raypipe": VERSION,
            "python": platform.python_version(),
            "torch": chosen.torch,
        },
    }
