"""The recipes that come with raypipe, and those that a user names: a file or a packaged one."""

import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from raypipe.config.load import load_recipe, load_training, read_recipe
from raypipe.config.phases import PhasedTraining
from raypipe.config.recipe import Recipe
from raypipe.config.training import Training
from raypipe.config.words import did_you_mean, listed
from raypipe.config.yaml import parse_yaml
from raypipe.errors import InputError
from raypipe.package import FOLDER

LONG = 140
"""Characters of a sentence that says what a recipe is for."""


def recipe_names(verb: str | None = None) -> list[str]:
    """Names of the packaged recipes, sorted; with a verb (pipeline or train), only those for it."""
    return sorted(name for name in _recipes() if verb in (None, verb_of(recipe_text(name))))


def verb_of(text: str) -> str:
    """The verb that runs a recipe, by its own keys: pipeline (stages) or train (loss, phases)."""
    try:
        keys = parse_yaml(text, origin=str).data
    except InputError:
        return "pipeline"  # loading it reports the problem
    trains = isinstance(keys, dict) and not {"loss", "phases"}.isdisjoint(keys)
    return "train" if trains else "pipeline"


def purpose_of(text: str) -> str:
    """What a recipe is for: the first sentence of the comment that it begins with, without a stop.

    Of a sentence that is longer than a line, what stands before its first colon or semicolon.
    """
    said = itertools.takewhile(re.compile("# \\S").match, text.splitlines())
    sentence = re.split(r"(?<=[.?]) (?=[A-Z])", " ".join(line[2:].strip() for line in said))[0]
    if len(sentence) > LONG:
        sentence = re.split("[:;] ", sentence)[0]
    return sentence.removesuffix(".")


def recipe_text(name: str) -> str:
    """The YAML text of a packaged recipe; the caller chooses the base of its relative paths.

    Raises:
        InputError: no recipe of that name.
    """
    recipes = _recipes()
    if name not in recipes:
        hint = did_you_mean(name, recipes)
        raise InputError(f"no packaged recipe {name!r}{hint} there are: {listed(sorted(recipes))}")
    return recipes[name].read_text(encoding="utf-8")


def _recipes() -> dict[str, Path]:
    """Recipe files by name, from the wheel or from the checkout that holds the package."""
    folder = FOLDER / "recipes"
    if not folder.is_dir():
        folder = FOLDER.parent / "jobs" / "configs"
    return {path.stem: path for path in folder.glob("*.yaml")}


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
