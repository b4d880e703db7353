"""config.json of a model folder, checked by the family that it names."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from raypipe.errors import InputError
from raypipe.models.family import family_of
from raypipe.models.folder.evidence import read_object
from raypipe.models.tensors import Shape

INITIALIZER_RANGE = 0.02
"""BERT's own, where config.json does not say it."""


def read_config(folder: Path) -> dict[str, Any]:
    """config.json, of a model that raypipe's forward computes.

    Raises:
        InputError: no JSON object, another architecture, or values that its family does not have;
            all at once.
    """
    file = folder / "config.json"
    config = read_object(file)
    problems = config_problems(config)
    if problems:
        raise InputError([f"{file}: {problem}" for problem in problems])
    return config


def config_problems(config: Mapping[str, Any]) -> list[str]:
    """Why a folder's config.json is of no model that raypipe computes; empty where it is of one."""
    try:
        return family_of(config).files.own_problems(config)
    except InputError as error:
        return list(error.problems)


def initializer_range(config: Mapping[str, Any]) -> float:
    """The standard deviation of weights that a training draws."""
    return float(config.get("initializer_range", INITIALIZER_RANGE))


def tensor_shapes(file: Path) -> dict[str, Shape]:
    """Shapes by name as saved; the tensors are not read.

    Raises:
        InputError: no safetensors file.
    """
    try:
        with safe_open(file, framework="numpy") as opened:
            return {n: tuple(opened.get_slice(n).get_shape()) for n in opened.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise InputError(f"{file}: not a safetensors file: {error}") from error
