"""A recipe named by the user: a file, or the name of a packaged recipe."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from raypipe.config.packaged import recipe_text, verb_of
from raypipe.config.pipeline.load import load_recipe, read_recipe
from raypipe.config.pipeline.recipe import Recipe
from raypipe.config.training.load import load_training
from raypipe.config.training.phases import PhasedTraining
from raypipe.config.training.recipe import Training
from raypipe.errors import InputError


def named_recipe(
    recipe: str, *, overrides: Sequence[str] = (), env: Mapping[str, str] | None = None
) -> Recipe:
    """The checked recipe in a file, or the packaged recipe of that name; see `load_recipe`.

    Raises:
        InputError: no such file or name, a training recipe, or every problem found in it.
    """
    text, base, source = _pipeline(recipe)
    return load_recipe(text, overrides=overrides, env=env, base=base, source=source)


def named_training(
    recipe: str, *, overrides: Sequence[str] = (), env: Mapping[str, str] | None = None
) -> Training | PhasedTraining:
    """The checked training recipe in a file, or the packaged one of that name.

    Raises:
        InputError: no such file or name, a pipeline recipe, or every problem found in it.
    """
    text, base, source = _found(recipe)
    if verb_of(text) == "pipeline" and "\nstages:" in text:
        raise InputError(
            f"{recipe}: this is a pipeline recipe (it has stages); use `raypipe pipeline {recipe}`"
        )
    return load_training(text, overrides=overrides, env=env, base=base, source=source)


def _pipeline(recipe: str) -> tuple[str, Path, str]:
    """See `_found`; a training recipe is refused."""
    found = _found(recipe)
    if verb_of(found[0]) == "train":
        raise InputError(
            f"{recipe}: this is a training recipe (it has a loss or phases); use "
            f"`raypipe train {recipe}`"
        )
    return found


def _found(recipe: str) -> tuple[str, Path, str]:
    """The recipe's text, the folder of its relative paths, and its name in messages."""
    path = Path(recipe)
    if path.suffix not in (".yaml", ".yml") and not path.exists():
        return recipe_text(recipe), Path.cwd(), f"recipe {recipe}"
    if not path.is_file():
        raise InputError(f"{path}: no such recipe file; `raypipe recipes` lists packaged ones")
    return read_recipe(path), path.parent, str(path)
