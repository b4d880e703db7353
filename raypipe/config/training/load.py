"""A training recipe from a file or text: overrides, variables, checks, paths."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from raypipe.config.fields import Section
from raypipe.config.pipeline.load import read_recipe
from raypipe.config.pipeline.parts import PACKAGED_MODELS
from raypipe.config.pipeline.structure import structural_problems
from raypipe.config.training.phases import (
    PhasedTraining,
    Written,
    phased,
    unknown_scorers,
    written_phases,
)
from raypipe.config.training.recipe import Training
from raypipe.config.training.rules import training_problems
from raypipe.config.yaml.document import Key, Problem, parse_yaml
from raypipe.config.yaml.overrides import apply_overrides
from raypipe.config.yaml.variables import expand
from raypipe.errors import InputError
from raypipe.uris import redacted

_PATHS = ("queries", "qrels", "run", "triples", "texts", "teacher", "runs", "input", "stores")


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
    if isinstance(recipe, Path):
        source, base = str(recipe), base or recipe.parent
        text = read_recipe(recipe)
    else:
        text = recipe
    document = parse_yaml(text, origin=lambda line: f"{source}: line {line}")
    refused = apply_overrides(document, overrides)
    problems = document.problems + expand(document, env or {})
    has_phases = isinstance(document.data, dict) and "phases" in document.data
    parts = [Written(document.data)]
    if has_phases:
        parts, of_phases = written_phases(document)
        problems += of_phases
    else:
        problems += unknown_scorers(document.data, ())
    for part in parts:
        problems += map(part.problem, _problems(part.body))
    told = refused + [document.describe(problem) for problem in problems]
    lines = list(dict.fromkeys(map(redacted, told)))
    if lines:
        raise InputError(lines)
    located = []
    for part in parts:
        _locate(part.body, base or Path())
        found = Training.model_validate(part.body)
        every = (*found.overrides, *overrides)
        located.append(found.model_copy(update={"overrides": every}))
    return phased(parts, located) if has_phases else located[0]


def _problems(body: Any) -> list[Problem]:
    """What is wrong with the data of one training."""
    try:
        return training_problems(Training.model_validate(body))
    except ValidationError as error:
        return structural_problems(error, body, Training)


def missing_training_inputs(recipe: Training | PhasedTraining) -> list[str]:
    """One problem for every missing local input."""
    if isinstance(recipe, PhasedTraining):
        told = [
            f"phase {phase.name}: {problem}" if problem.startswith(("train.", "dev.")) else problem
            for phase in recipe.phases
            for problem in missing_training_inputs(phase.training)
        ]
        return list(dict.fromkeys(told))
    problems = []
    for key, path in _located(recipe, ()):
        if "://" not in path and not Path(path).exists():
            where = ".".join(str(part) for part in key)
            problems.append(f"{where}: {path}: no such file or folder")
    if recipe.model.start not in PACKAGED_MODELS and not Path(recipe.model.start).exists():
        named = ", ".join(PACKAGED_MODELS)
        problems.append(
            f"model.start: {recipe.model.start}: expected a model folder or one of {named}"
        )
    adapter = recipe.model.adapter
    begun = None if adapter is None else adapter.start
    if begun is not None and begun not in PACKAGED_MODELS and not Path(begun).exists():
        problems.append(f"model.adapter.start: {begun}: no such folder")
    return problems


def _located(part: Any, key: Key) -> Iterator[tuple[Key, str]]:
    if isinstance(part, Section):
        part = {name: getattr(part, name) for name in type(part).model_fields}
    if isinstance(part, Mapping):
        for name, value in part.items():
            if name == "collections":
                value = {n: c for n, c in value.items() if c.format != "ir-datasets"}
            if name in _PATHS and name != "stores" and isinstance(value, str):
                yield (*key, name), value
            elif name in _PATHS and isinstance(value, tuple):
                yield from (((*key, name, i), path) for i, path in enumerate(value))
            else:
                yield from _located(value, (*key, name))


def _locate(body: dict[str, Any], base: Path) -> None:
    """Make every relative path in the data absolute, in place."""

    def located(value: Any) -> Any:
        if isinstance(value, list):
            return [located(each) for each in value]
        if not isinstance(value, str) or "://" in value:
            return value
        return os.path.abspath(base / value)

    def walk(part: Any) -> None:
        if not isinstance(part, dict) or part.get("format") == "ir-datasets":
            return
        for name, value in part.items():
            if name in _PATHS and isinstance(value, str | list):
                part[name] = located(value)
            else:
                walk(value)

    walk(body)
    model = body["model"]
    if model["start"] not in PACKAGED_MODELS:
        model["start"] = located(model["start"])
    begun = (model.get("adapter") or {}).get("start")
    if begun and begun not in PACKAGED_MODELS:
        model["adapter"]["start"] = located(model["adapter"]["start"])
