"""Opens every model of a recipe before its first store: a model that cannot be used costs no work.

Read are config.json, the tokenizer, the header of the weights and the bytes for their hash; nothing
is computed, so a driver on a machine without an accelerator can do it too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from raypipe.config.parts import Model
from raypipe.config.recipe import Recipe
from raypipe.config.resolved import read_resolved
from raypipe.driver.inputs import has_copies
from raypipe.errors import InputError
from raypipe.kinds.ann import Ann
from raypipe.kinds.encode import Encode, Truncate, encode_of
from raypipe.kinds.lucene import ImpactIndex
from raypipe.kinds.score import MonoScore, Rerank
from raypipe.models.folder.model_folder import (
    ModelFolder,
    layouts_of,
    misfits,
    resolve_model,
)
from raypipe.models.folder.settings import Conventions, PretrainedConventions
from raypipe.uris import NEWEST, SCHEME, HubName, address, is_hub


def open_models(
    recipe: Recipe, selected: Collection[str], say: Callable[[str], None] = lambda line: None
) -> dict[str, ModelFolder]:
    """The models by their names in the recipe, each one hashed and in the recipe's precision.

    A hub's is fetched to huggingface_hub's cache if that lacks its commit, and `say` gets a line.

    Models of stages that are not `selected` are opened too; only their kind may be another.

    Raises:
        InputError: every problem of every model, with its name: an architecture that cannot be
            computed, limits beyond its positions, segments or a head that it lacks, a tokenizer or
            settings that do not fit, or a stage that needs another kind of model.
    """
    models: dict[str, ModelFolder] = {}
    problems: list[str] = []
    for name, model in recipe.models.items():
        of_hub = is_hub(model.path)
        if of_hub and not HubName(model.path, model.revision).is_commit:
            continue  # the hub did not say its commit, which is among the problems already
        faults: list[str] = []
        try:
            if of_hub:
                from raypipe.models.hub import snapshot_of

                uri = address(model.path, model.revision)
                snapshot_of(uri, partial(_say, say, f"models.{name}"))
            models[name] = opened(model, recipe.resources.precision)
            faults += unfit(models[name])
        except InputError as error:
            faults += error.problems
        problems += [f"models.{name}: {problem}" for problem in dict.fromkeys(faults)]
    for name in selected:
        stage = recipe.stages[name]
        if isinstance(stage, Encode | Rerank) and stage.model in models:
            try:
                check_kind(models[stage.model], name, stage)
            except InputError as error:
                problems += error.problems
        if isinstance(stage, Ann | ImpactIndex | Truncate):
            problems += unfit_for_index(recipe, name, stage, models)
    if problems:
        raise InputError(problems)
    return models


def _say(say: Callable[[str], None], key: str, line: str) -> None:
    say(f"{key}: {line}")


def open_or_tell(
    recipe: Recipe,
    selected: Collection[str],
    others: Sequence[str],
    say: Callable[[str], None],
) -> tuple[dict[str, ModelFolder], list[str]]:
    """The models, and their problems after `others`, to be told with those of the other inputs.

    Raises:
        InputError: there are problems, and an input would have to be fetched to find its own.
    """
    try:
        models, problems = open_models(recipe, selected, say), [*others]
    except InputError as error:
        models, problems = {}, [*others, *error.problems]
    if problems and has_copies(recipe):
        raise InputError(problems)
    return models, problems


def opened(model: Model, precision: str) -> ModelFolder:
    """One model of a recipe, hashed; `auto` and `fastest` leave its precision open.

    Raises:
        InputError: see `resolve_model`.
    """
    path = address(model.path, model.revision)
    folder = resolve_model(path, model.preset, settings=model.settings)
    return folder if precision in ("auto", "fastest") else folder.in_precision(precision)


def check_kind(model: ModelFolder, name: str, stage: Encode | Rerank) -> None:
    """Returns nothing if the model is of the kind that the stage `name` needs.

    Raises:
        InputError: it is of another kind.
    """
    try:
        if isinstance(stage, Encode):
            assert model.encoder
            return
        conventions = model.reranker
    except InputError as error:
        raise InputError(
            [f"stages.{name}: {stage.model}: {problem}" for problem in error.problems]
        ) from error
    kind = "mono" if isinstance(stage, MonoScore) else "duo"
    if conventions.kind != kind:
        right, wrong = ("k1", "k0") if conventions.kind == "duo" else ("k0", "k1")
        raise InputError(
            f"stages.{name}: {stage.model} is of kind {conventions.kind}, and the stage needs a "
            f"model of kind {kind}; write {right} in the place of {wrong}"
        )


def unfit_for_index(
    recipe: Recipe,
    name: str,
    stage: Ann | ImpactIndex | Truncate,
    models: Mapping[str, ModelFolder],
) -> list[str]:
    """A problem if the index `name` cannot be made of what the model makes; none of no encoder."""
    encode, embeddings = encode_of(recipe.stages, stage.embeddings), stage.embeddings
    made = models[encode.model].conventions if encode.model in models else None
    if isinstance(stage, Truncate) and isinstance(made, Conventions) and not made.is_sparse:
        dim = models[encode.model].dim
        problem = f"stages.{name}.dims: found {stage.dims}, expected at most {dim}, as {embeddings}"
        return [f"{problem} has"] if stage.dims > dim else []
    if not isinstance(made, Conventions) or made.is_sparse == isinstance(stage, ImpactIndex):
        return []
    key = f"stages.{name}.embeddings: {embeddings} has"
    if made.is_sparse:
        return [
            f"{key} weights of word pieces ({encode.model} is a {made.pooling} model); search it "
            f"itself, which is exact, or its index, {{do: index, embeddings: {embeddings}}}"
        ]
    return [
        f"{key} embeddings; expected the weights of a sparse model, and {encode.model} has "
        f"pooling {made.pooling}. Search {embeddings} itself, or an index {{do: ann, embeddings: "
        f"{embeddings}}}"
    ]


def unfit(model: ModelFolder) -> list[str]:
    """The problems of a model's tokenizer, limits, segments and head; empty if it can compute.

    An adapter has its base's tokenizer and positions, and the segments and head of the two
    together.
    """
    if isinstance(model.conventions, PretrainedConventions) or model.by_library:
        return []  # it neither encodes nor scores, or its library was asked when it was found
    try:
        layouts = layouts_of(model)
    except InputError as error:
        return list(error.problems)
    return misfits(model, layouts)


def with_commits(
    recipe: Recipe, folder: Path, say: Callable[[str], None]
) -> tuple[Recipe, list[str]]:
    """The recipe with the commit of each model of a hub, and the problems of models for which the
    hub does not say one, which keep their names.

    A commit that the last invocation in the workspace `folder` found stays: a hub is asked only for
    a model that the workspace has not named before.
    """
    if not any(is_hub(model.path) for model in recipe.models.values()):
        return recipe, []
    before = models_before(folder)
    models, problems = dict(recipe.models), list[str]()
    for name, model in recipe.models.items():
        try:
            models[name] = at_commit(f"models.{name}", model, before, say)
        except InputError as error:
            problems += [f"models.{name}: {problem}" for problem in error.problems]
    return recipe.model_copy(update={"models": models}), problems


def at_commit(
    key: str, model: Model, before: Mapping[tuple[str, str], str], say: Callable[[str], None]
) -> Model:
    """A hub's model with its commit: its own, that of the last invocation, or the newest.

    Any other model stays as it is.

    Args:
        key: where the recipe names it.
        model: of a hub, or any other.
        before: (path, branch) -> commit, of the last invocation.
        say: a line if the commit was not in the recipe.

    Raises:
        InputError: the hub does not say.
    """
    if not is_hub(model.path):
        return model
    named = HubName(model.path.removeprefix(SCHEME), model.revision)
    if named.is_commit:
        of = (path_branch[1] for path_branch, commit in before.items() if commit == model.revision)
        return model.model_copy(update={"branch": model.branch or next(of, None)})
    branch = model.revision or NEWEST
    commit = before.get((model.path, branch))
    if not commit:
        from raypipe.models.hub import newest_commit

        commit, how = newest_commit(named.repository, model.revision), f"the newest of {branch}"
    else:
        how = "as in this workspace before"
    say(f"{key}: {named.repository} at {commit}, {how}; to take another, name its commit")
    return model.model_copy(update={"revision": commit, "branch": branch})


def models_before(folder: Path) -> dict[tuple[str, str], str]:
    """(path, branch) -> commit of the hub's models in a workspace's recipe.yaml.

    A recipe.yaml that cannot be read knows none: it is written anew.
    """
    try:
        body = read_resolved(folder / "recipe.yaml")
    except InputError:
        return {}
    models = body.get("models")
    parts: list[Any] = [*models.values()] if isinstance(models, dict) else []
    phases = body.get("phases")
    trained = phases[0] if isinstance(phases, list) and phases else body
    parts.append(trained.get("model") if isinstance(trained, dict) else None)
    return {
        (str(part.get("path", part.get("start"))), str(part["branch"])): str(part["revision"])
        for part in parts
        if isinstance(part, dict) and "branch" in part and "revision" in part
    }
