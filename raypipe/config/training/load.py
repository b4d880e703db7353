"""A training recipe from a file or text: overrides, variables, checks."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from raypipe.config.pipeline.load import read_recipe
from raypipe.config.pipeline.structure import structural_problems
from raypipe.config.training.paths import make_absolute
from raypipe.config.training.phases import (
    PhasedTraining,
    Written,
    phased,
    unknown_scorers,
    written_phases,
)
from raypipe.config.training.recipe import Training
from raypipe.config.training.rules import training_problems
from raypipe.config.yaml.document import Problem, parse_yaml
from raypipe.config.yaml.overrides import apply_overrides
from raypipe.config.yaml.variables import expand
from raypipe.errors import InputError
from raypipe.uris import redacted


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
        make_absolute(part.body, base or Path())
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
