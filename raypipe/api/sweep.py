"""Runs a recipe with several values of some keys, from Python."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raypipe import config, numerics
from raypipe.api.invocation import (
    Invocation,
    Overrides,
    inline_by_default,
    plain_recipe,
    texts_of,
    watching,
)
from raypipe.errors import InputError

if TYPE_CHECKING:
    from raypipe.api.opened.ray import Ray


@dataclass(frozen=True)
class Sweep:
    """The result of a sweep."""

    folder: Path
    """With sweep.json, sweep.md and the points' workspaces."""
    table: str = field(repr=False)
    """A line for each point and system, as Markdown; empty if nothing was measured."""
    rows: list[dict[str, Any]] = field(repr=False)
    """The same lines with plain numbers: values, point, query_set, system, n, measures,
    ms_per_query and inferences_per_query."""
    points: dict[str, Invocation] = field(repr=False)
    """Each point's result, by its name."""


def sweep(
    recipe: str | Path | Mapping[str, Any],
    out: str | Path,
    *,
    overrides: Overrides,
    only: str | None = None,
    until: str | None = None,
    frozen: bool = False,
    progress: bool = False,
    ray: "Ray | None" = None,
) -> Sweep:
    """Run every point of a grid over shared stores, like `raypipe pipeline` with lists of values.

    The same call resumes; a further value computes only what it adds.

    Args:
        recipe: a file, a packaged name or a dictionary, as in `Recipe.load`.
        out: the folder of the sweep, which holds a workspace for each point.
        overrides: dotted keys, as in `Recipe.load`; a list where the recipe takes one value gives
            the values of the points: {"stages.mono.k0": [20, 50, 100]}.
        only: see `run`, as for the other arguments. Of the points one Ray serves all.

    Raises:
        InputError: no override gives several values, or every problem of every point.
        RaypipeError: what ended a point; the note of the error names it.
    """
    told = texts_of(overrides)
    if isinstance(recipe, Mapping):
        points = config.sweep_points(plain_recipe(recipe), overrides=told, env=os.environ)
    else:
        points = config.named_sweep(str(recipe), overrides=told, env=os.environ)
    if not points:
        raise InputError(
            "overrides: expected a list of values for a key that takes one, such as "
            "{'stages.mono.k0': [20, 50]}; found none. For a single recipe there is `raypipe.run`"
        )
    numerics.set_strict()
    from raypipe.driver.pipeline import Options
    from raypipe.driver.report.lines import to_stderr
    from raypipe.driver.sweep.state import point_folder
    from raypipe.driver.sweep.sweep import run_sweep

    folder, shared = Path(out), None if ray is None else ray.shared
    address = os.environ.get("RAY_ADDRESS") if shared is None else shared.address
    wanted = points
    if shared is None:
        wanted = [replace(point, recipe=inline_by_default(point.recipe)) for point in points]
    found = run_sweep(
        wanted,
        folder,
        Options(only=only, until=until, frozen=frozen, ray_address=address, shared=shared),
        watching=partial(watching, progress),
        say=to_stderr if progress else lambda line: None,
    )
    stores = found.sweep.stores or str((folder / "stores").absolute())
    recipes = (point.recipe.model_copy(update={"stores": stores}) for point in wanted)
    invocations = {
        name: Invocation(point_folder(folder, name), outcome.summary, outcome.table, own)
        for (name, outcome), own in zip(found.outcomes.items(), recipes, strict=True)
    }
    return Sweep(folder, found.table, found.sweep.to_json()["rows"], invocations)
