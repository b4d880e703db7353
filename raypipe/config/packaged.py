"""The recipes that come with raypipe."""

import itertools
import re
from pathlib import Path

from raypipe.config.yaml.document import parse_yaml
from raypipe.config.yaml.words import did_you_mean, listed
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
