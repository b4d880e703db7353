"""Runs every point of a sweep, one after the other, over shared stores."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from raypipe.config import Point, missing_inputs, select
from raypipe.config.hub import is_hub
from raypipe.config.stages import DuoScore, Encode, MonoScore
from raypipe.driver.invocation import invocation, work_begins
from raypipe.driver.machine.shared import SharedRay
from raypipe.driver.machine.signals import interruptible
from raypipe.driver.mirror import address_of, default_stores, write_out
from raypipe.driver.models.named import models_before
from raypipe.driver.models.opened import open_models
from raypipe.driver.pipeline import Options, Outcome, run_pipeline
from raypipe.driver.recipe.watching import Watcher
from raypipe.driver.sweep.state import (
    FILE,
    Sweep,
    is_sweep,
    point_address,
    point_folder,
    point_name,
    write_sweep,
)
from raypipe.driver.sweep.table import rows_of_point, table_of
from raypipe.driver.workspace import Workspace
from raypipe.errors import InputError

TABLE = "sweep.md"


@dataclass
class SweepOutcome:
    """What is printed after a sweep."""

    sweep: Sweep
    table: str
    """Markdown; empty if nothing was measured."""
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    """Of each point, by its name."""


def run_sweep(
    points: Sequence[Point],
    out: Path,
    options: Options,
    *,
    watching: Callable[[], AbstractContextManager[Watcher]],
    say: Callable[[str], None] = lambda line: None,
) -> SweepOutcome:
    """Runs the points in their order, each in a workspace in the folder, and makes one table.

    The folder is a workspace too: its lease, its summary and its exit code are those of the whole
    sweep. Its stores are those of every point, so nothing is computed twice, and the same command
    resumes; so are its Ray, what it fetched, and the commit of a hub's model. sweep.json and
    sweep.md are written anew after each point.

    Args:
        points: what `sweep_points` found, one or more.
        out: the folder of the sweep; created if new.
        options: those of every point.
        watching: gives each point a watcher of its own.
        say: takes messages, a line each.

    Raises:
        InputError: a problem of a point that can be found before work, or a pipeline's workspace in
            the place of the folder.
        RaypipeError: what ended a point, with a note that names it; later points have not begun.
    """
    names = [point_name(point.values) for point in points]
    _check(points, options)
    if not is_sweep(out) and (out / "recipe.yaml").exists():
        raise InputError(
            f"{address_of(out)}: the workspace of a single recipe; name another --out for the "
            f"sweep. With stores={default_stores(out)} it uses what is stored there"
        )
    stores = points[0].recipe.stores
    if stores == str((out / "stores").absolute()):  # even if the folder is moved
        stores = None
    named = zip(names, (point.values for point in points), strict=True)
    sweep = Sweep(points[0].recipe.name, stores, dict(named))
    done = SweepOutcome(sweep, "")
    workspace = Workspace(out, stores)
    with (
        invocation(workspace, sweep.recipe) as summary,
        interruptible() as should_stop,
        closing(SharedRay(options.ray_address, allow_open=options.allow_open_cluster)) as own_ray,
    ):
        shared = options.shared or own_ray
        options = replace(options, shared=shared, inputs=out / "inputs")
        work_begins(workspace, summary)
        _write(workspace, done)
        commits = _commits(points, (point_folder(out, name) for name in names))
        for number, (name, point) in enumerate(zip(names, points, strict=True), start=1):
            stop = should_stop()
            if stop is not None:
                raise stop
            say(f"point {number} of {len(points)}: {point_address(out, name)}")
            folder, own = point_folder(out, name), replace(options, commits=commits)
            try:
                outcome = _run(point, folder, workspace, own, watching, say)
            except BaseException as error:
                summary["point"] = name
                error.add_note(f"in point {number} of {len(points)}: {point_address(out, name)}")
                raise
            done.outcomes[name] = outcome
            commits = models_before(folder) | commits
            rows = rows_of_point(point.values, name, folder, outcome.summary)
            done.sweep = replace(done.sweep, rows=(*done.sweep.rows, *rows))
            done.table = table_of(done.sweep)
            _write(workspace, done)
    return done


def _commits(points: Sequence[Point], folders: Iterable[Path]) -> dict[tuple[str, str], str]:
    """(path, branch) -> the commit of a hub's model that the first of these points has, if any."""
    paths = {model.path for point in points for model in point.recipe.models.values()}
    found: dict[tuple[str, str], str] = {}
    for folder in folders if any(map(is_hub, paths)) else ():
        found = models_before(folder) | found
    return found


def _run(
    point: Point,
    folder: Path,
    workspace: Workspace,
    options: Options,
    watching: Callable[[], AbstractContextManager[Watcher]],
    say: Callable[[str], None],
) -> Outcome:
    recipe = point.recipe.model_copy(update={"stores": workspace.stores.uri})
    with watching() as watcher:
        return run_pipeline(recipe, folder, options, watcher=watcher, say=say)


def _write(workspace: Workspace, done: SweepOutcome) -> None:
    write_sweep(workspace.folder, done.sweep)
    write_out(workspace.folder, TABLE, done.table.encode())
    workspace.wrote(workspace.folder / FILE, workspace.folder / TABLE)


def _check(points: Sequence[Point], options: Options) -> None:
    """Find what is wrong with any point before the first one begins.

    Raises:
        InputError: stages, inputs or models that are not there or do not fit.
    """
    problems: list[str] = []
    seen: list[Any] = []
    for point in points:
        recipe = point.recipe
        try:
            selected = select(recipe, only=options.only, until=options.until)
        except InputError as error:
            problems += error.problems
            continue
        missing = missing_inputs(recipe)
        problems += missing
        scorers = [
            (name, stage.do, stage.model)
            for name in selected
            if isinstance(stage := recipe.stages[name], Encode | MonoScore | DuoScore)
        ]
        models = (recipe.models, scorers)
        if missing or models in seen:
            continue
        seen.append(models)
        try:
            open_models(recipe, selected)
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(list(dict.fromkeys(problems)))
