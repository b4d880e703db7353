"""A recipe named by the user: a file, or the name of a packaged recipe."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from raypipe.config.packaged import recipe_text, verb_of
from raypipe.config.pipeline.load import load_recipe, read_recipe
from raypipe.config.pipeline.recipe import Recipe
from raypipe.errors import InputError


def named_recipe(
    recipe: str, *, overrides: Sequence[str] = (), env: Mapping[str, str] | None = None
) -> Recipe:
    """The checked recipe in a file, or the packaged recipe of that name; see `load_recipe`.

    Raises:
        InputError: no such file or name, a training recipe, or every problem found in it.
    """
    path = Path(recipe)
    if path.suffix in (".yaml", ".yml") or path.exists():
        if not path.is_file():
            raise InputError(f"{path}: no such recipe file; `raypipe recipes` lists packaged ones")
        _refuse_training(read_recipe(path), recipe)
        return load_recipe(path, overrides=overrides, env=env)
    text = recipe_text(recipe)
    _refuse_training(text, recipe)
    return load_recipe(
        text, overrides=overrides, env=env, base=Path.cwd(), source=f"recipe {recipe}"
    )


def _refuse_training(text: str, name: str) -> None:
    if verb_of(text) == "train":
        raise InputError(
            f"{name}: this is a training recipe (it has a loss); use `raypipe train {name}`"
        )
