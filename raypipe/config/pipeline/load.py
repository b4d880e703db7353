"""A recipe from a file, from text or from data: overrides, variables, checks, defaults, paths."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from raypipe.config.pipeline.draft import draft
from raypipe.config.pipeline.paths import absolute
from raypipe.config.pipeline.recipe import Recipe
from raypipe.config.pipeline.rules import rule_problems
from raypipe.config.pipeline.stage_kinds import (
    Aggregate,
    Bm25,
    Fuse,
    Score,
    Search,
    Stage,
    equal_weights,
)
from raypipe.config.pipeline.structure import structural_problems
from raypipe.config.yaml.document import MAX_BYTES, Document, Key, parse_yaml
from raypipe.config.yaml.overrides import apply_overrides
from raypipe.config.yaml.variables import escaped, expand
from raypipe.errors import InputError


def load_recipe(
    recipe: Path | str | Mapping[str, Any],
    *,
    overrides: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    base: Path | None = None,
    source: str = "recipe",
) -> Recipe:
    """The checked recipe, defaults filled in and paths absolute; nothing is opened but its file.

    Args:
        recipe: a Path names a YAML file, a str is YAML text, a mapping is the data itself, in
            which `${` means nothing.
        overrides: KEY=VALUE each, with dotted keys, applied in order before anything is checked
            and recorded in `Recipe.overrides`.
        env: the values of `${VAR}`, also in overrides; None means that none is set.
        base: the folder of relative paths; that of the file, or the current one, if None.
        source: what problems call a recipe that is no file.

    Raises:
        InputError: every problem found, each with file, line, dotted key and remedy.
    """
    if isinstance(recipe, Path):
        source, base = str(recipe), base or recipe.parent
        text = read_recipe(recipe)
    elif isinstance(recipe, str):
        text = recipe
    else:
        text = yaml.safe_dump(escaped(dict(recipe)), sort_keys=False)
    lines = not isinstance(recipe, Mapping)
    document = parse_yaml(text, origin=lambda line: f"{source}: line {line}" if lines else source)
    checked = _checked(document, overrides, env or {})
    checked = checked.model_copy(update={"overrides": (*checked.overrides, *overrides)})
    return absolute(_complete(checked), base or Path())


def read_recipe(path: Path) -> str:
    """The text of a recipe file, UTF-8.

    Raises:
        InputError: no such file, too large, or no UTF-8.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"{path}: expected a recipe of at most {MAX_BYTES:,} bytes")
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: expected a recipe; {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: expected a recipe in UTF-8; {error}") from None


def _checked(document: Document, overrides: Sequence[str], env: Mapping[str, str]) -> Recipe:
    """The data as a recipe that breaks no rule.

    Raises:
        InputError: every problem of overrides, variables, types and rules.
    """
    refused = apply_overrides(document, overrides)
    problems = document.problems + expand(document, env)
    recipe = None
    try:
        recipe = Recipe.model_validate(document.data)
    except ValidationError as error:
        problems += structural_problems(error, document.data)
    problems += rule_problems(draft(document.data))
    places = _places(document.data)
    problems.sort(key=lambda problem: places.get(problem.key[:2], -1))
    lines = list(dict.fromkeys(refused + [document.describe(problem) for problem in problems]))
    if lines or recipe is None:
        raise InputError(lines)
    return recipe


def _places(data: Any) -> dict[Key, int]:
    """The order of the recipe's parts, so that problems are told from top to bottom."""
    keys: list[Key] = [()]
    for name, part in data.items() if isinstance(data, dict) else ():
        keys.append((name,))
        keys += [(name, inner) for inner in part] if isinstance(part, dict) else []
    return {key: place for place, key in enumerate(keys)}


def _complete(recipe: Recipe) -> Recipe:
    """The recipe with the defaults that depend on another value."""
    collection = recipe.collection
    if collection.format == "python-docs":
        found = _absent(collection.max_passages, max_passages=6000)
        collection = collection.model_copy(update=found)
    stages = {name: _complete_stage(stage, recipe) for name, stage in recipe.stages.items()}
    return recipe.model_copy(update={"collection": collection, "stages": stages})


def _complete_stage(stage: Stage, recipe: Recipe) -> Stage:
    if isinstance(stage, Search) and recipe.stages[stage.index].do == "index":
        bm25 = stage.bm25 or Bm25()
        if not bm25.tune:
            bm25 = bm25.model_copy(update=_absent(bm25.k1, k1=0.9) | _absent(bm25.b, b=0.4))
        return stage.model_copy(update={"bm25": bm25})
    if isinstance(stage, Score) and stage.k1 is None:
        return stage.model_copy(update=_absent(stage.k0, k0=1000))
    if isinstance(stage, Aggregate):
        pairs = recipe.stages[stage.pairs]
        assert isinstance(pairs, Score)
        return stage.model_copy(update=_absent(stage.k1, k1=pairs.k1))
    if isinstance(stage, Fuse) and stage.method == "rrf":
        return stage.model_copy(update=_absent(stage.k, k=60.0))
    if isinstance(stage, Fuse) and stage.method == "weighted":
        weights = equal_weights(len(stage.runs))
        return stage.model_copy(update=_absent(stage.weights, weights=weights))
    return stage


def _absent(value: object, **default: object) -> dict[str, object]:
    return default if value is None else {}
