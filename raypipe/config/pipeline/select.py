"""Which stages of a recipe to run."""

from raypipe.config.pipeline.recipe import Recipe
from raypipe.config.yaml.words import did_you_mean, listed
from raypipe.errors import InputError


def select(recipe: Recipe, *, only: str | None = None, until: str | None = None) -> list[str]:
    """Names of the stages to run, in the order of the recipe; all of them by default.

    Args:
        only: only this stage; its inputs must already be stored.
        until: this stage and the stages above it that it needs, directly or indirectly.

    Raises:
        InputError: no such stage, or both arguments are given.
    """
    wanted = [(flag, name) for flag, name in (("only", only), ("until", until)) if name is not None]
    problems = [
        f"--{flag}: no stage {name!r}{did_you_mean(name, recipe.stages)} the recipe"
        f" {recipe.name} has {listed(recipe.stages)}"
        for flag, name in wanted
        if name not in recipe.stages
    ]
    if len(wanted) == 2:
        problems.append("--only and --until: expected one of them; found both")
    if problems:
        raise InputError(problems)
    if only is not None:
        return [only]
    return list(recipe.stages) if until is None else _needed(recipe, until)


def _needed(recipe: Recipe, name: str) -> list[str]:
    """Inputs are above their readers, so one pass from the bottom finds them all."""
    needed = {name}
    for stage in reversed(recipe.stages):
        if stage in needed:
            needed.update(recipe.stages[stage].inputs)
    return [stage for stage in recipe.stages if stage in needed]
