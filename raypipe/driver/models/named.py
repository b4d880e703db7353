"""The hub's models that a recipe names, with their commits."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from raypipe.config import Recipe, Training, read_resolved
from raypipe.config.parts import Model
from raypipe.config.phases import PhasedTraining, trainings_of
from raypipe.errors import InputError
from raypipe.hub_names import NEWEST, SCHEME, HubName, is_hub
from raypipe.models.hub import newest_commit


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


def with_start(
    recipe: Training | PhasedTraining, folder: Path, say: Callable[[str], None]
) -> Training | PhasedTraining:
    """A training's recipe, all of whose phases name the commit of its starting model.

    Raises:
        InputError: the hub does not say.
    """
    first = trainings_of(recipe)[0].model
    if not is_hub(first.start):
        return recipe
    model = Model(path=first.start, revision=first.revision, branch=first.branch)
    try:
        pinned = at_commit("model.start", model, models_before(folder), say)
    except InputError as error:
        raise InputError([f"model.start: {problem}" for problem in error.problems]) from error
    update = {"revision": pinned.revision, "branch": pinned.branch}
    return with_model(recipe, lambda training: update)


def with_model(
    recipe: Training | PhasedTraining, update: Callable[[Training], Mapping[str, Any]]
) -> Training | PhasedTraining:
    """The recipe, whose `model` section gets these keys, in each phase."""
    if isinstance(recipe, Training):
        model = recipe.model.model_copy(update=update(recipe))
        return recipe.model_copy(update={"model": model})
    phases = []
    for phase in recipe.phases:
        training = with_model(phase.training, update)
        assert isinstance(training, Training)
        phases.append(replace(phase, training=training))
    return PhasedTraining(tuple(phases))


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
    known = before.get((model.path, branch))
    commit = known or newest_commit(named.repository, model.revision)
    how = "as in this workspace before" if known else f"the newest of {branch}"
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
