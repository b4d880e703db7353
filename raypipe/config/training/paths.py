"""The paths in a training recipe: made absolute, and checked for missing files."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from raypipe.config.fields import Section
from raypipe.config.hub import is_hub
from raypipe.config.hub import located as located_model
from raypipe.config.pipeline.parts import PACKAGED_MODELS
from raypipe.config.training.phases import PhasedTraining, trainings_of
from raypipe.config.training.recipe import Training
from raypipe.config.yaml.document import Key
from raypipe.errors import InputError

_PATHS = ("queries", "qrels", "run", "triples", "texts", "teacher", "runs", "input", "stores")


def make_absolute(body: dict[str, Any], base: Path) -> None:
    """Make every relative path in the data absolute, in place; a hub's name becomes its URI.

    Raises:
        InputError: the starting model's revision is named twice, or is that of a folder.
    """

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
        named, problems = located_model("model.start", model["start"], model.get("revision"), base)
        if problems:
            raise InputError(problems)
        if named is None:
            model["start"] = located(model["start"])
        else:
            model |= {"start": named.uri, "revision": named.revision}
    begun = (model.get("adapter") or {}).get("start")
    if begun and begun not in PACKAGED_MODELS:
        model["adapter"]["start"] = located(model["adapter"]["start"])


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
    for where, path in _files(recipe):
        if "://" not in path and not Path(path).exists():
            problems.append(f"{where}: {path}: no such file or folder")
    start = recipe.model.start
    if start not in PACKAGED_MODELS and not is_hub(start) and not Path(start).exists():
        named = ", ".join(PACKAGED_MODELS)
        problems.append(
            f"model.start: {recipe.model.start}: expected a model folder, one of {named}, or a "
            "hub's model as hf://OWNER/NAME"
        )
    adapter = recipe.model.adapter
    begun = None if adapter is None else adapter.start
    if begun is not None and begun not in PACKAGED_MODELS and not Path(begun).exists():
        problems.append(f"model.adapter.start: {begun}: no such folder")
    return problems


def training_inputs(recipe: Training | PhasedTraining) -> list[tuple[str, str]]:
    """For each input: (dotted key, path or URI), each path once; packaged models are left out."""
    found: dict[str, str] = {}
    for part in trainings_of(recipe):
        adapter = part.model.adapter
        begun = None if adapter is None else adapter.start
        models = [("model.start", part.model.start), ("model.adapter.start", begun)]
        named = [(key, path) for key, path in models if path and path not in PACKAGED_MODELS]
        for key, path in [*_files(part), *named]:
            found.setdefault(path, key)
    return [(key, path) for path, key in found.items()]


def _files(recipe: Training) -> Iterator[tuple[str, str]]:
    """(dotted key, path or URI) of the files of collections and sets."""
    return ((".".join(map(str, key)), path) for key, path in _located(recipe, ()))


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
