"""The recipe, as written and as loaded; which of its stages to run, and what they rank.

Make one with `load_recipe`. Types are checked here and in `parts.py`, the rules between parts in
`rules.py`.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from raypipe.config.fields import Listed, Location, Name, Section
from raypipe.config.parts import Collection, Evaluate, Model, QuerySet, Resources, RunFiles
from raypipe.errors import InputError, did_you_mean, listed
from raypipe.kinds.kind import Kind
from raypipe.kinds.read import GivenRun
from raypipe.kinds.registry import Stage, Written


class _Parts(Section):
    format: Literal[1]
    name: Name
    collection: Collection
    queries: dict[Name, QuerySet] = {}
    models: dict[Name, Model] = {}
    stages: dict[Name, Any] = {}
    evaluate: Evaluate | None = None
    runs: RunFiles = RunFiles()
    resources: Resources = Resources()
    stores: Location | None = None
    """Folder or URI of the stores; None means the workspace's own."""
    overrides: Annotated[tuple[str, ...], Listed] = ()
    """The overrides that this recipe was made with; they are already applied."""


class WrittenRecipe(_Parts):
    """One YAML recipe as written. Queries, models and stages keep the order of the file."""

    stages: dict[Name, Written] = {}


class Recipe(_Parts):
    """A loaded recipe: every stage is resolved to its own class, with every default filled in."""

    stages: dict[Name, Stage] = {}


def select(recipe: Recipe, until: str | None = None) -> list[str]:
    """Names of the stages to run, in the order of the recipe; all of them by default.

    With `until`, that stage and those above it that it needs, directly or indirectly.

    Raises:
        InputError: no such stage.
    """
    if until is None:
        return list(recipe.stages)
    if until not in recipe.stages:
        raise InputError(
            f"--until: no stage {until!r}{did_you_mean(until, recipe.stages)} the recipe"
            f" {recipe.name} has {listed(recipe.stages)}"
        )
    return _needed(recipe, until)


def _needed(recipe: Recipe, name: str) -> list[str]:
    """Inputs are above their readers, so one pass from the bottom finds them all."""
    needed = {name}
    for stage in reversed(recipe.stages):
        if stage in needed:
            needed.update(recipe.stages[stage].inputs)
    return [stage for stage in recipe.stages if stage in needed]


def larger_collections(stages: Mapping[str, Kind]) -> dict[str, str | None]:
    """The name of the larger collection that a stage's runs come from, if there is one, by stage.

    A stage over such a run, such as a merge, is counted with it: which passages it has, and so its
    measures, depend on what the larger collection holds. Of several names the first one counts.
    """
    larger: dict[str, str | None] = {}
    for name, stage in stages.items():
        own = stage.larger_collection if isinstance(stage, GivenRun) else None
        below = (larger[each] for each in stage.inputs)
        larger[name] = own or next((each for each in below if each is not None), None)
    return larger
