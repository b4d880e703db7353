"""The paths in a recipe: made absolute, and checked for missing files."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from raypipe.config.fields import Section
from raypipe.config.parts import PACKAGED_MODELS, Model, QuerySet
from raypipe.config.phases import PhasedTraining, trainings_of
from raypipe.config.recipe import Recipe
from raypipe.config.training import Training
from raypipe.config.yaml import Key
from raypipe.errors import InputError
from raypipe.hub_names import is_hub, located
from raypipe.hub_names import located as located_model
from raypipe.regular import similar
from raypipe.uris import dataset_id


def absolute(recipe: Recipe, base: Path) -> Recipe:
    """The recipe with relative paths resolved against the folder; URIs and ids are unchanged.

    The URI of a file becomes its path. A model's path may be a hub's name (see `config.hub`), which
    becomes hf://OWNER/NAME; whether it is one may depend on a folder being there.

    Raises:
        InputError: a revision is named twice, or of a folder.
    """

    def locate(path: str) -> str:
        path = path.removeprefix("file://")
        if "://" in path or dataset_id(path) is not None:
            return path
        return os.path.abspath(base / path)

    collection = recipe.collection
    if collection.format != "ir-datasets":
        found = tuple(locate(path) for path in collection.input)
        collection = collection.model_copy(update={"input": found})
    stores = None if recipe.stores is None else locate(recipe.stores)
    update = {"collection": collection, "stores": stores, "models": _models(recipe, base)}
    return relocated(recipe.model_copy(update=update), locate)


def _models(recipe: Recipe, base: Path) -> dict[str, Model]:
    """The models, with hubs' names apart from revisions."""
    problems: list[str] = []
    found = dict(recipe.models)
    for name, model in recipe.models.items():
        named, told = located(f"models.{name}", model.path, model.revision, base)
        problems += told
        if named is not None:
            update = {"path": named.uri, "revision": named.revision}
            found[name] = model.model_copy(update=update)
    if problems:
        raise InputError(problems)
    return found


def relocated(recipe: Recipe, locate: Callable[[str], str], *, models: bool = True) -> Recipe:
    """The recipe with other paths of queries, judgements, models and stages' files."""

    def moved(path: str | None) -> str | None:
        return None if path is None else locate(path)

    def query_set(queries: QuerySet) -> QuerySet:
        car = queries.car
        if car is not None:
            of_car = {key: tuple(map(locate, paths)) for key, paths in car.files().items()}
            car = car.model_copy(update=of_car)
        names = ("file", "qrels", "document_qrels")
        found: dict[str, object] = {name: moved(getattr(queries, name)) for name in names}
        found["car"] = car
        return queries.model_copy(update=found)

    def model(model: Model) -> Model:
        return (
            model.model_copy(update={"path": moved(model.path)})
            if models and _is_folder(model)
            else model
        )

    return recipe.model_copy(
        update={
            "queries": {name: query_set(queries) for name, queries in recipe.queries.items()},
            "models": {name: model(part) for name, part in recipe.models.items()},
            "stages": {name: stage.located(locate) for name, stage in recipe.stages.items()},
        }
    )


def missing_inputs(recipe: Recipe, *, collection: bool = True) -> list[str]:
    """One problem for every missing local input, in the order of the recipe.

    Without `collection` its files are not needed: a stored one is read. Buckets, ir_datasets ids
    and packaged models are not checked.
    """
    problems = []
    for key, name, wanted in recipe_inputs(recipe):
        if not collection and key.startswith("collection."):
            continue
        if "://" in name or (key.startswith("queries.") and dataset_id(name) is not None):
            continue
        path = Path(name)
        if not path.exists():
            hint = (key.startswith("models.") and similar(path, PACKAGED_MODELS)) or ";"
            problems.append(f"{key}: {path}: no such file or folder{hint} expected {wanted}")
        elif key.endswith("qrels") and path.is_dir():
            problems.append(f"{key}: {path}: a folder; expected {wanted}")
    return problems


def recipe_inputs(recipe: Recipe) -> Iterator[tuple[str, str, str]]:
    """For each input, in the order of the recipe: (dotted key, path or URI, what is expected)."""
    if recipe.collection.format != "ir-datasets":
        for i, path in enumerate(recipe.collection.input):
            yield f"collection.input.{i}", path, f"passages in format {recipe.collection.format}"
    for name, queries in recipe.queries.items():
        if queries.file:
            yield f"queries.{name}.file", queries.file, "a queries file"
        if queries.qrels:
            yield f"queries.{name}.qrels", queries.qrels, "a qrels file"
        if queries.car is not None:
            for key, paths in queries.car.files().items():
                for i, path in enumerate(paths):
                    yield f"queries.{name}.car.{key}.{i}", path, f"TREC CAR's {key}"
        if queries.document_qrels:
            yield f"queries.{name}.document_qrels", queries.document_qrels, "a qrels file"
    for name, model in recipe.models.items():
        if _is_folder(model):
            named = ", ".join(PACKAGED_MODELS)
            hint = f"{named}, a folder with weights, or a hub's model as hf://OWNER/NAME"
            yield f"models.{name}.path", model.path, hint
    for name, stage in recipe.stages.items():
        for key, path, expected in stage.files():
            yield f"stages.{name}.{key}", path, expected


def _is_folder(model: Model) -> bool:
    return model.path not in PACKAGED_MODELS and not is_hub(model.path)


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
