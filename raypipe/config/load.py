"""A recipe from a file, from text or from data: overrides, variables, checks, defaults, paths."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import ValidationError

from raypipe.config.parts import Collection
from raypipe.config.paths import absolute
from raypipe.config.recipe import Recipe, WrittenRecipe
from raypipe.config.rules import draft, resolved_split, rule_problems
from raypipe.config.yaml import (
    MAX_BYTES,
    Document,
    Key,
    Problem,
    apply_overrides,
    escaped,
    expand,
    parse_yaml,
)
from raypipe.errors import InputError, did_you_mean, listed
from raypipe.kinds.kind import Kind, absent
from raypipe.package import FOLDER
from raypipe.regular import check_regular
from raypipe.uris import redacted

if TYPE_CHECKING:
    from raypipe.config.phases import PhasedTraining
    from raypipe.config.training import Training


def load_recipe(
    recipe: Path | str | Mapping[str, Any],
    *,
    overrides: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    base: Path | None = None,
    source: str = "recipe",
) -> Recipe:
    """The checked recipe, with defaults and absolute paths; opens no file but the recipe's own.

    Args:
        recipe: a Path names a YAML file; a str is YAML text; a mapping is the data itself, in which
            `${` has no special meaning.
        overrides: KEY=VALUE each, with dotted keys, applied in order before anything is checked and
            recorded in `Recipe.overrides`.
        env: the values of `${VAR}`, also in overrides; None means that none is set.
        base: the folder of relative paths; None means the file's folder, or the current one.
        source: the name, in messages, of a recipe that does not come from a file.

    Raises:
        InputError: every problem found, each with file, line, dotted key and remedy.
    """
    if isinstance(recipe, Path):
        source, base = str(recipe), base or recipe.parent
        recipe = read_recipe(recipe)
    document = document_of(recipe, source)
    checked = _checked(document, overrides, env or {})
    checked = checked.model_copy(update={"overrides": (*checked.overrides, *overrides)})
    return absolute(_resolved(checked), base or Path())


def document_of(recipe: str | Mapping[str, Any], source: str) -> Document:
    """The data of a recipe, unchecked, with the line of each value if it is given as text.

    Raises:
        InputError: text that is not YAML, or data nested too deeply.
    """
    if isinstance(recipe, str):
        return parse_yaml(recipe, origin=lambda line: f"{source}: line {line}")
    try:
        text = yaml.safe_dump(escaped(dict(recipe)), sort_keys=False)
    except RecursionError:
        raise InputError(f"{source}: nested too deeply to be a recipe") from None
    return parse_yaml(text, origin=lambda line: source)


def read_recipe(path: Path) -> str:
    """The text of a recipe file, UTF-8.

    Raises:
        InputError: the file is missing or no file, too large or not UTF-8.
    """
    check_regular(path, "a recipe")
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(
                f"{path}: expected a recipe of at most {MAX_BYTES:,} bytes, found "
                f"{path.stat().st_size:,}; queries and passages belong in files of their own"
            )
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: expected a recipe; {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: expected a recipe in UTF-8; {error}") from None


def _checked(document: Document, overrides: Sequence[str], env: Mapping[str, str]) -> WrittenRecipe:
    """The recipe in the data, if it breaks no rule.

    Raises:
        InputError: every problem of overrides, variables, types and rules.
    """
    refused = apply_overrides(document, overrides)
    problems = document.problems + expand(document, env)
    recipe = None
    try:
        recipe = WrittenRecipe.model_validate(document.data)
    except ValidationError as error:
        from raypipe.config.structure import structural_problems

        problems += structural_problems(error, document.data, WrittenRecipe)
    problems += rule_problems(draft(document.data))
    places = _places(document.data)
    problems.sort(key=lambda problem: places.get(problem.key[:2], -1))
    _refuse(refused, document, problems)
    assert recipe is not None
    return recipe


def _refuse(refused: Sequence[str], document: Document, problems: Sequence[Problem]) -> None:
    """Raise InputError with the refused overrides and all problems, if there are any."""
    texts = [*refused, *(document.describe(problem) for problem in problems)]
    lines = list(dict.fromkeys(map(redacted, texts)))
    if lines:
        raise InputError(lines)


def _places(data: Any) -> dict[Key, int]:
    """The position of each part in the recipe, so that problems are listed from top to bottom."""
    keys: list[Key] = [()]
    for name, part in data.items() if isinstance(data, dict) else ():
        keys.append((name,))
        keys += [(name, inner) for inner in part] if isinstance(part, dict) else []
    return {key: place for place, key in enumerate(keys)}


def _resolved(recipe: WrittenRecipe) -> Recipe:
    """The recipe with the defaults that depend on another value, and each stage's own type."""
    stages: dict[str, Kind] = {}
    for name, stage in recipe.stages.items():
        stages[name] = stage.resolved(stages)
    collection = resolved_collection(recipe.collection)
    return Recipe.model_validate({**vars(recipe), "collection": collection, "stages": stages})


def resolved_collection(collection: Collection) -> Collection:
    """The collection with the defaults that depend on another value."""
    if collection.format == "python-docs":
        absences = absent(collection.max_passages, max_passages=6000)
        collection = collection.model_copy(update=absences)
    if collection.split is not None:
        collection = collection.model_copy(update={"split": resolved_split(collection.split)})
    return collection


def load_training(
    recipe: Path | str,
    *,
    overrides: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    base: Path | None = None,
    source: str = "recipe",
) -> Training | PhasedTraining:
    """The checked recipe with absolute paths; opens no file but the recipe's own.

    Args are those of `load_recipe`.

    Raises:
        InputError: every problem found, each with file, line, dotted key and remedy.
    """
    from raypipe.config.phases import Written, phased, unknown_phases, written_phases
    from raypipe.config.training import Training

    if isinstance(recipe, Path):
        source, base = str(recipe), base or recipe.parent
        recipe = read_recipe(recipe)
    document = document_of(recipe, source)
    refused = apply_overrides(document, overrides)
    problems = document.problems + expand(document, env or {})
    has_phases = isinstance(document.data, dict) and "phases" in document.data
    parts = [Written(document.data)]
    if has_phases:
        parts, of_phases = written_phases(document)
        problems += of_phases
    else:
        problems += unknown_phases(document.data, ())
    for part in parts:
        problems += map(part.problem, _problems(part.body))
    _refuse(refused, document, problems)
    located = []
    for part in parts:
        training = absolute(Training.model_validate(part.body), base or Path())
        every = (*training.overrides, *overrides)
        located.append(training.model_copy(update={"overrides": every}))
    return phased(parts, located)


def _problems(body: Any) -> list[Problem]:
    """The problems of the data of one training."""
    from raypipe.config.structure import structural_problems
    from raypipe.config.training import Training
    from raypipe.config.training_rules import training_problems

    try:
        return training_problems(Training.model_validate(body))
    except ValidationError as error:
        return structural_problems(error, body, Training)


LONG = 140
"""Characters of a sentence that says what a recipe is for."""


def recipe_names(verb: str | None = None) -> list[str]:
    """Names of the packaged recipes, sorted; with a verb, only those that it runs."""
    return sorted(name for name in _recipes() if verb is None or verb == verb_of(recipe_text(name)))


def verb_of(text: str) -> str:
    """The verb that runs a recipe, by its own keys: train (loss, phases), reindex (a folder of
    snapshots), otherwise pipeline."""
    try:
        keys = parse_yaml(text, origin=str).data
    except InputError:
        return "pipeline"  # loading it reports the problem
    if not isinstance(keys, dict):
        return "pipeline"
    if not {"loss", "phases"}.isdisjoint(keys):
        return "train"
    collection = keys.get("collection")
    return "reindex" if isinstance(collection, dict) and "snapshots" in collection else "pipeline"


def purpose_of(text: str) -> str:
    """A recipe's purpose: the first sentence of the comment that it begins with, without a stop.

    A sentence that is longer than a line ends before its first colon or semicolon.
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
    verb = verb_of(text)
    if verb != "train" and "\nstages:" in text:
        raise InputError(
            f"{recipe}: this is a pipeline recipe (it has stages); use `raypipe {verb} {recipe}`"
        )
    return load_training(text, overrides=overrides, env=env, base=base, source=source)


def _pipeline(recipe: str) -> tuple[str, Path, str]:
    """The text, base and source of a pipeline recipe; a training recipe is refused."""
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
