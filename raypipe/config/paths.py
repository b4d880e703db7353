"""The paths in a recipe: made absolute, and checked for missing files.

A field says by its type that it holds places (`Location`) or a model (`ModelPlace`). One walk finds
them all, in a recipe and in a training.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from raypipe.config.fields import OWN_ID, Holds, Section
from raypipe.config.parts import PACKAGED_MODELS
from raypipe.config.parts import Collection as CollectionPart
from raypipe.config.recipe import Recipe
from raypipe.errors import InputError
from raypipe.regular import similar
from raypipe.uris import dataset_id, is_hub, located

if TYPE_CHECKING:
    from raypipe.config.phases import PhasedTraining
    from raypipe.config.training import Training

Part = TypeVar("Part", bound=Section)
Locate = Callable[[str], str]
_STORES = ("stores",)


def relocated(part: Part, locate: Locate, *, without: Collection[str] = ()) -> Part:
    """The section with other places: of files, folders and models that are folders.

    Args:
        part: a recipe, a training or a part of one.
        locate: a place -> its new one. Ids of ir_datasets that are no places are left out, and so
            are the names of packaged models and of a hub's.
        without: names of the section's own fields that stay as they are.
    """
    return _walked(part, lambda key, place: locate(place), "", without)


def places_of(part: Section, *, without: Collection[str] = ()) -> dict[str, str]:
    """Every place by its dotted key, in the order of the section; see `relocated`."""
    places: dict[str, str] = {}
    _walked(part, places.setdefault, "", without)
    return places


def _walked(
    part: Part, visit: Callable[[str, str], str], prefix: str, without: Collection[str] = ()
) -> Part:
    """The section with what `visit` makes of each place's dotted key and the place."""
    update = {
        name: moved
        for name, value, kind in _fields(part, without)
        if (moved := _moved(value, kind, visit, f"{prefix}{name}")) != value
    }
    return part.model_copy(update=update) if update else part


def _fields(part: Section, without: Collection[str]) -> Iterator[tuple[str, Any, Holds | None]]:
    """Name and value of each field that may have places, and what it holds itself."""
    of_datasets = isinstance(part, CollectionPart) and part.format == "ir-datasets"
    for name, field in type(part).model_fields.items():
        if name not in without and not of_datasets:
            yield name, getattr(part, name), _kind((field.annotation, field.metadata))


def _kind(annotation: Any) -> Holds | None:
    """Whether a type holds places or a model; None if neither."""
    if isinstance(annotation, tuple):
        inner, metadata = annotation
    else:
        inner, metadata = annotation, getattr(annotation, "__metadata__", ())
    marks = [mark for mark in metadata if isinstance(mark, Holds)]
    return marks[-1] if marks else next(filter(None, map(_kind, get_args(inner))), None)


def _moved(value: Any, kind: Holds | None, visit: Callable[[str, str], str], key: str) -> Any:
    if isinstance(value, Section):
        return _walked(value, visit, f"{key}.")
    if isinstance(value, Mapping):
        return {name: _moved(each, kind, visit, f"{key}.{name}") for name, each in value.items()}
    if isinstance(value, tuple) and kind is Holds.PLACE:
        return tuple(visit(f"{key}.{i}", each) for i, each in enumerate(value))
    return visit(key, value) if isinstance(value, str) and _is_place(value, kind) else value


def _is_place(value: str, kind: Holds | None) -> bool:
    if kind is Holds.MODEL:
        return _is_folder(value)
    return kind is Holds.PLACE or (kind is Holds.EXCLUDED and value != OWN_ID)


def _is_folder(model: str) -> bool:
    return model not in PACKAGED_MODELS and not is_hub(model)


def absolute(recipe: Part, base: Path) -> Part:
    """A recipe or a training with relative paths resolved against the folder.

    The URI of a file becomes its path; other URIs and ids are unchanged. A model's path may be a
    hub's name, which becomes hf://OWNER/NAME; whether it is one may depend on a folder being there.
    With a folder of snapshots, the relative paths of passages and queries are in each of these.

    Raises:
        InputError: a revision is named twice, or of a folder.
    """
    inside = base
    if isinstance(recipe, Recipe) and recipe.collection.format != "ir-datasets":
        for folder in recipe.collection.snapshots:
            inside = base / folder.removeprefix("file://") / SNAPSHOT

    def locate(key: str, path: str) -> str:
        path = path.removeprefix("file://")
        if "://" in path or dataset_id(path) is not None:
            return path
        is_inside = key.startswith(("collection.input.", "queries."))
        return os.path.abspath((inside if is_inside else base) / path)

    return _walked(_with_hub_names(recipe, base), locate, "")


SNAPSHOT = "{snapshot}"
"""Stands in a place for the name of each snapshot."""


def _with_hub_names(recipe: Part, base: Path) -> Part:
    """The recipe, in which hubs' names of models are apart from their revisions."""
    problems: list[str] = []

    def named(key: str, path: str, revision: str | None) -> dict[str, str | None]:
        hub, faults = located(key, path, revision, base)
        problems.extend(faults)
        return {} if hub is None else {"path": hub.uri, "revision": hub.revision}

    update: dict[str, Any] = {}
    if isinstance(recipe, Recipe):
        update["models"] = {
            name: model.model_copy(update=named(f"models.{name}", model.path, model.revision))
            for name, model in recipe.models.items()
        }
    else:
        from raypipe.config.training import Training

        if isinstance(recipe, Training) and recipe.model.start not in PACKAGED_MODELS:
            model = named("model.start", recipe.model.start, recipe.model.revision)
            if model:
                start = {"start": model["path"], "revision": model["revision"]}
                update["model"] = recipe.model.model_copy(update=start)
    if problems:
        raise InputError(problems)
    return recipe.model_copy(update=update)


_EXPECTED = {
    "file": "a queries file",
    "queries": "a queries file",
    "snapshots": "a folder of snapshots",
    "qrels": "a qrels file",
    "document_qrels": "a qrels file",
    "exclude": "own-id, or a file of queries and passages",
    "runs": "a run file",
    "run": "a run file",
    "texts": "a file of queries and passages",
    "triples": "a file of triples",
    "teacher": "a run file, a workspace or a model",
    "outlines": "TREC CAR's outlines",
    "pages": "TREC CAR's pages",
}
"""What is expected at a key; its last words that are no name and no number decide."""
_MODELS = (
    f"{', '.join(PACKAGED_MODELS)}, a folder with weights, or a hub's model as hf://OWNER/NAME"
)


def recipe_inputs(recipe: Recipe | Training | PhasedTraining) -> Iterator[tuple[str, str, str]]:
    """(dotted key, path or URI, what is expected) of each input, in the order of the recipe."""
    parts = [recipe] if isinstance(recipe, Section) else [each.training for each in recipe.phases]
    for part in parts:
        for key, path in places_of(part, without=_STORES).items():
            words = key.split(".")
            if words[-2:-1] == ["input"]:
                holder = part.collection if isinstance(part, Recipe) else part.collections[words[1]]
                yield key, path, f"passages in format {holder.format}"
            elif "model" in words[0]:
                yield key, path, _MODELS
            else:
                yield key, path, next(_EXPECTED[w] for w in reversed(words) if w in _EXPECTED)


def missing_inputs(
    recipe: Recipe | Training | PhasedTraining, *, collection: bool = True
) -> list[str]:
    """One problem for every missing local input, in the order of the recipe.

    Without `collection` its files are not needed: a stored one is read. Buckets, ir_datasets ids
    and packaged models are not checked.
    """
    if not isinstance(recipe, Section):
        problems = [
            f"phase {phase.name}: {problem}" if problem.startswith(("train.", "dev.")) else problem
            for phase in recipe.phases
            for problem in missing_inputs(phase.training)
        ]
        return list(dict.fromkeys(problems))
    if isinstance(recipe, Recipe) and recipe.collection.snapshots:
        return [
            "collection.snapshots: `raypipe reindex` alone runs the snapshots of a folder; for one "
            "of them, remove the key and name its files"
        ]
    problems = []
    for key, name, role in recipe_inputs(recipe):
        if not collection and key.startswith("collection."):
            continue
        of_dataset = dataset_id(name) is not None and role in ("a queries file", "a qrels file")
        if "://" in name or of_dataset:
            continue
        path = Path(name)
        if not path.exists():
            hint = (key.startswith("models.") and similar(path, PACKAGED_MODELS)) or ";"
            problems.append(f"{key}: {path}: no such file or folder{hint} expected {role}")
        elif {"qrels", "exclude"} & {*key.split(".")} and path.is_dir():
            problems.append(f"{key}: {path}: a folder; expected {role}")
    return problems
