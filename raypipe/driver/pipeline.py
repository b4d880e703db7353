"""The main job: runs a recipe to completion in a workspace."""

import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raypipe.config import Recipe, missing_inputs, resolved_yaml, select
from raypipe.driver.forecast.planning import line_of
from raypipe.driver.forecast.run import beside_facts, check_forecast, run_forecast
from raypipe.driver.generations.drift import limits_of
from raypipe.driver.generations.held import generations_held
from raypipe.driver.generations.publish import Built, Publication, publish
from raypipe.driver.generations.retire import retire_older
from raypipe.driver.invocation import invocation, work_begins
from raypipe.driver.machine import devices
from raypipe.driver.machine.inputs import with_copies
from raypipe.driver.machine.place import Place, SharedRay, backends_at
from raypipe.driver.machine.signals import interruptible
from raypipe.driver.measure import Measurement, measure
from raypipe.driver.metrics import Exporting, RayMetrics
from raypipe.driver.mirror import address_of, refuse_sweep, write_out
from raypipe.driver.models.named import with_commits
from raypipe.driver.models.opened import open_or_tell
from raypipe.driver.recipe.execute import Execution
from raypipe.driver.recipe.frozen import refuse_changes
from raypipe.driver.recipe.read_first import collection_problems, read_first
from raypipe.driver.recipe.walking import systems_of
from raypipe.driver.recipe.watching import StageResult, Watcher
from raypipe.driver.recipe.written.builtin import with_files
from raypipe.driver.recipe.written.topics import with_topics
from raypipe.driver.working import basis_at, devices_for, sizing_of
from raypipe.driver.workspace import Workspace
from raypipe.errors import InputError, RaypipeError, ending_of
from raypipe.names import StoreName, Thing
from raypipe.package import VERSION
from raypipe.storage.generations import Generation, generation_numbers


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the command line that are not part of the recipe."""

    only: str | None = None
    until: str | None = None
    frozen: bool = False
    ray_address: str | None = None
    """Address of a cluster to join; None starts one for this process alone."""
    allow_open_cluster: bool = False
    inline: bool = False
    """Work in this process, whatever backend the recipe names."""
    why: str = ""
    """Why it runs inline or on Ray, beside the line of devices."""
    shared: SharedRay | None = None
    """The Ray of several invocations of this process, with the same address."""
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
    selected = select(recipe, only=options.only, until=options.until)
    limits = limits_of(options.max_drift, recipe.evaluate.measures if recipe.evaluate else ())
    problems = missing_inputs(recipe, collection=options.reading is None)
    if problems:
        raise InputError(problems)
    refuse_sweep(out)
    if recipe.stores == str((out / "stores").absolute()):  # even if the workspace is moved
        recipe = recipe.model_copy(update={"stores": None})
    workspace = Workspace(out, recipe.stores)
    with invocation(workspace, recipe.name) as summary, interruptible() as should_stop:
        stores, builds = workspace.stores, options.reindex
        with generations_held(stores, recipe.name, builds=builds, reading=options.reading) as (
            base,
            reading,
        ):
            published = Publication(base, limits) if options.reindex else None
            table = _run(
                recipe,
                workspace,
                selected,
                options,
                watcher,
                say,
                should_stop,
                published,
                reading,
                summary,
            )
    return Outcome(summary, table)


def _run(
    recipe: Recipe,
    workspace: Workspace,
    selected: list[str],
    options: Options,
    watcher: Watcher,
    say: Callable[[str], None],
    should_stop: Callable[[], RaypipeError | None],
    publication: Publication | None,
    reading: Generation | None,
    summary: dict[str, Any],
) -> str:
    """The table; the summary is filled before a limit may refuse what was built."""
    began = time.monotonic()
    wanted = recipe.resources
    if options.inline:  # one worker, with all cores
        wanted = wanted.model_copy(update={"backend": "inline", "actors": 1})
    place = Place(wanted.backend, options.ray_address, options.allow_open_cluster, options.shared)
    exporting = None
    if wanted.backend == "ray":
        watcher = exporting = Exporting(watcher, recipe.name, RayMetrics())
    chosen = devices_for(place, wanted, should_stop)
    why = f", {'inline' if wanted.backend == 'inline' else 'on Ray'}: {options.why}"
    say(chosen.line() + (why if options.why else ""))
    precise = recipe.resources.model_copy(update={"precision": chosen.precision})
    recipe = recipe.model_copy(update={"resources": precise})
    recipe, problems = with_commits(recipe, workspace.folder, say)
    models, problems = open_or_tell(recipe, selected, problems, say)
    backends = backends_at(place, chosen)
    try:
        made = workspace.folder / "python-docs"
        named = with_files(recipe, made, on_making=backends.warm)
        if named is not recipe:
            workspace.wrote(made)
        needed = options.reading is None
        named, sources = with_copies(named, workspace.folder / "inputs", collection=needed)
        frozen = options.frozen and summary["finished_before"]
        if options.frozen and not frozen:
            say(
                f"--frozen: no earlier invocation finished in {address_of(workspace.folder)}, so "
                "nothing is compared; the next one is compared with this one"
            )
        named = with_topics(named, workspace, say, frozen=frozen)
        if frozen and not problems:
            refuse_changes(named, workspace, models)
        if needed:
            problems = [*problems, *collection_problems(named)]
        judgements = read_first(named, problems)
        allowed = _allowed(selected) if options.only else None
        execution = Execution(
            workspace=workspace,
            backends=backends,
            sizing=sizing_of(wanted, chosen),
            watcher=watcher,
            max_failed_rows=wanted.max_failed_rows,
            numerics_one=wanted.numerics == "one",
            reuse=wanted.reuse,
            base=None if publication is None else publication.base,
            reading=reading,
            may_run=allowed or (lambda store: True),
            should_stop=should_stop,
            on_change=say,
        )
        basis = basis_at(named, execution, chosen, sources, models)
        forecast = None
        if options.reading is None and options.tokens_of is None:
            forecast = run_forecast(
                basis, selected, chosen, workspace=workspace, compute=execution.ensure
            )
        if forecast is not None:
            say(line_of(forecast))
            watcher.expects(len(forecast.lines))
            summary["plan"] = [line.store for line in forecast.lines]
            workspace.tell_stores()
            check_forecast(forecast, workspace)
        work_begins(workspace, summary)
        write_out(workspace.folder, "recipe.yaml", resolved_yaml(recipe).encode())
        workspace.wrote(workspace.folder / "recipe.yaml")
        if options.tokens_of is not None:
            basis.tokens(options.tokens_of)
        systems = systems_of(basis, selected)
        measurement = measure(basis, workspace, systems, execution.results, judgements)
        summary.pop("plan", None)  # from here on `stages` has it
        summary |= summary_of(measurement, execution.results, chosen)
        if forecast is not None:
            summary["forecast"] = beside_facts(forecast, execution.results, workspace.folder)
        if publication is not None:
            seconds = time.monotonic() - began
            built = Built(basis, systems, execution.results, measurement, seconds)
            summary["generation"] = publish(workspace, publication, built)
            if options.keep is not None:
                try:
                    retire_older(workspace.stores, recipe.name, options.keep)
                except OSError as error:  # the generation is published all the same
                    why = ending_of(error).reason
                    say(f"warning: the generation is current, but none was retired: {why}")
            summary["generations"] = generation_numbers(workspace.stores, recipe.name)
        if selected == [*recipe.stages]:
            workspace.forget_sources()
        if exporting is not None:
            exporting.succeeded()
    finally:
        backends.close()
    return measurement.table


def _allowed(selected: list[str]) -> Callable[[StoreName], bool]:
    """Whether --only allows computing a store: a selected stage's own."""
    return lambda store: store.thing is Thing.STAGE and store.owner in selected


def summary_of(
    measurement: Measurement, results: Mapping[StoreName, StageResult], chosen: devices.Devices
) -> dict[str, Any]:
    """The entries for systems, measures, notes, stages, device and versions."""
    return {
        "systems": measurement.systems,
        "measures": measurement.means,
        "notes": measurement.notes,
        "stages": {
            str(store): {
                "seconds": round(result.seconds, 2),
                "rows": result.num_rows,
                "copied": result.num_copied,
                "shards": {
                    "planned": result.num_shards,
                    "reused": result.num_shards_reused,
                    "quarantined": result.num_quarantined,
                },
                "coverage": result.coverage,
                "reused": result.reused,
                "fingerprint": result.fingerprint,
                **second_pass_of(result),
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


def second_pass_of(result: StageResult) -> dict[str, Any]:
    """Of exact search, how many of the queries that were searched needed the second pass.

    A query counts once for each span of embeddings. Of a store that several invocations computed,
    these are the shards of the last one.
    """
    if not result.num_searched:
        return {}
    share = round(result.num_repeated / result.num_searched, 6)
    told = {"searched": result.num_searched, "queries": result.num_repeated, "share": share}
    return {"second_pass": told}
