"""The hub's models that a recipe names: with their commits, and with folders in their place."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from raypipe.config import Recipe, Training, read_resolved
from raypipe.config.hub import NEWEST, SCHEME, HubName, is_hub
from raypipe.config.pipeline.parts import Model
from raypipe.config.training.phases import PhasedTraining, trainings_of
from raypipe.driver.models import hub, library
from raypipe.driver.workspace import Workspace
from raypipe.errors import InputError
from raypipe.storage.storage import Storage


def with_commits(
    recipe: Recipe, workspace: Workspace, say: Callable[[str], None]
) -> tuple[Recipe, Recipe, list[str]]:
    """The recipe with the commit of each model of a hub, the same with folders in their place, and
    the problems of models that the hub does not give, which keep their names.

    A commit that the workspace's last invocation found stays: a hub is asked only for a model that
    the workspace has not named before, and for files that its stores lack.

    Raises:
        CorruptError: files that were fetched before are damaged.
    """
    if not any(is_hub(model.path) for model in recipe.models.values()):
        return recipe, recipe, []
    before = models_before(workspace.folder)
    pinned, placed, problems = dict(recipe.models), dict(recipe.models), list[str]()
    for name, model in recipe.models.items():
        if not is_hub(model.path):
            continue
        try:
            pinned[name] = at_commit(f"models.{name}", model, before, say)
            folder = fetched(f"models.{name}", pinned[name], workspace, say)
            placed[name] = _placed(pinned[name], folder)
        except InputError as error:
            problems += [f"models.{name}: {problem}" for problem in error.problems]
    named = recipe.model_copy(update={"models": pinned})
    return named, recipe.model_copy(update={"models": placed}), problems


def with_folders(recipe: Recipe, stores: Storage) -> Recipe:
    """A resolved recipe with folders in the place of its hub's models; nobody is asked.

    A model that the stores no longer have keeps its name: whoever opens it is told so.
    """
    models = {name: in_folder(model, stores) for name, model in recipe.models.items()}
    return recipe.model_copy(update={"models": models})


def in_folder(model: Model, stores: Storage) -> Model:
    """The same of one model."""
    if not is_hub(model.path) or model.revision is None:
        return model
    repository = model.path.removeprefix(SCHEME)
    manifest = hub.find(stores, repository, model.revision)
    if manifest is None:
        return model
    return _placed(model, hub.folder_of(stores, repository, model.revision, manifest))


def with_start(
    recipe: Training | PhasedTraining, workspace: Workspace, say: Callable[[str], None]
) -> tuple[Training | PhasedTraining, Training | PhasedTraining]:
    """A training's recipe with the commit of its starting model, and with a folder in its place.

    Raises:
        InputError: the hub does not give it.
        CorruptError: files that were fetched before are damaged.
    """
    first = trainings_of(recipe)[0].model
    if not is_hub(first.start):
        return recipe, recipe
    model = Model(path=first.start, revision=first.revision, branch=first.branch)
    try:
        pinned = at_commit("model.start", model, models_before(workspace.folder), say)
        placed = _placed(pinned, fetched("model.start", pinned, workspace, say))
    except InputError as error:
        raise InputError([f"model.start: {problem}" for problem in error.problems]) from error
    return _begun_from(recipe, pinned), _begun_from(recipe, placed)


def _begun_from(recipe: Training | PhasedTraining, model: Model) -> Training | PhasedTraining:
    """The recipe, all of whose phases name this starting model."""
    update = {"start": model.path, "revision": model.revision, "branch": model.branch}
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


def named_aside(
    recipe: Recipe, folder: Path, stores: Storage, say: Callable[[str], None]
) -> tuple[Recipe, list[str]]:
    """What `with_commits` says of a workspace in `folder`, whose stores are only read.

    A model that they lack is taken from the library's own cache, where it is fetched to.
    """
    before, models, problems = models_before(folder), dict(recipe.models), list[str]()
    for name, model in recipe.models.items():
        try:
            models[name] = one_aside(f"models.{name}", model, before, stores, say)[1]
        except InputError as error:
            problems += [f"models.{name}: {problem}" for problem in error.problems]
    return recipe.model_copy(update={"models": models}), problems


def one_aside(
    key: str,
    model: Model,
    before: Mapping[tuple[str, str], str],
    stores: Storage,
    say: Callable[[str], None],
) -> tuple[Model, Model]:
    """A model with its commit, and with a folder in its place; nothing is stored.

    Raises:
        InputError: the hub does not give it.
    """
    if not is_hub(model.path):
        return model, model
    pinned = at_commit(key, model, before, say)
    placed = in_folder(pinned, stores)
    if not is_hub(placed.path):
        return pinned, placed
    assert pinned.revision is not None
    return pinned, _placed(model, cached(pinned.path.removeprefix(SCHEME), pinned.revision))


def cached(repository: str, revision: str | None) -> Path:
    """The folder of a hub's model in the library's own cache; fetched to it if it lacks the commit.

    Raises:
        InputError: the hub does not give it.
    """
    commit = revision
    if commit is None or not HubName(repository, commit).is_commit:
        commit = library.newest_commit(repository, revision)
    files = library.fetched(repository, commit)
    return next(path for name, path in files.items() if "/" not in name).parent


def at_commit(
    key: str, model: Model, before: Mapping[tuple[str, str], str], say: Callable[[str], None]
) -> Model:
    """A hub's model with its commit: its own, that of the last invocation, or the newest.

    Args:
        key: where the recipe names it.
        model: of a hub.
        before: (path, branch) -> commit, of the last invocation.
        say: a line if the commit was not in the recipe.

    Raises:
        InputError: the hub does not say.
    """
    named = HubName(model.path.removeprefix(SCHEME), model.revision)
    if named.is_commit:
        of = (path_branch[1] for path_branch, commit in before.items() if commit == model.revision)
        return model.model_copy(update={"branch": model.branch or next(of, None)})
    branch = model.revision or NEWEST
    known = before.get((model.path, branch))
    commit = known or library.newest_commit(named.repository, model.revision)
    how = "as in this workspace before" if known else f"the newest of {branch}"
    say(f"{key}: {named.repository} at {commit}, {how}; to take another, name its commit")
    return model.model_copy(update={"revision": commit, "branch": branch})


def fetched(key: str, model: Model, workspace: Workspace, say: Callable[[str], None]) -> Path:
    """The folder of a hub's model at its commit, which is fetched if the stores lack it.

    Raises:
        InputError: the hub does not give it.
    """
    repository, commit = model.path.removeprefix(SCHEME), model.revision
    assert commit is not None
    manifest, anew = hub.ensure(workspace, repository, commit)
    if anew:
        size = sum(record.num_bytes for record in manifest.records) / 1e6
        say(f"{key}: fetched {len(manifest.records)} files of {repository}, {size:,.1f} MB")
    return hub.folder_of(workspace.stores, repository, commit, manifest)


def _placed(model: Model, folder: Path) -> Model:
    return model.model_copy(update={"path": str(folder), "revision": None, "branch": None})


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
