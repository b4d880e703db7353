"""The place that all trainings of an invocation share, and whether their inputs fit it."""

from dataclasses import dataclass, replace

from raypipe.config.training import Training
from raypipe.driver.devices import Devices
from raypipe.driver.execute import Execution
from raypipe.driver.place import WorkPlace
from raypipe.driver.workspace import Workspace
from raypipe.errors import InputError
from raypipe.models.folder.adapters import is_adapter
from raypipe.models.folder.discover import why_library
from raypipe.models.folder.files import longest_input
from raypipe.models.folder.model_folder import (
    PACKAGED,
    ModelFolder,
    folder_of,
    layouts_of,
    resolve_configuration,
    resolve_model,
)
from raypipe.models.folder.modules import ModelFiles
from raypipe.models.folder.settings import Conventions
from raypipe.training.adapter_start import adapter_problems
from raypipe.training.job import conventions_of_training
from raypipe.training.start import missing_problems
from raypipe.uris import address

OF_KIND = {"encoder": "repbert", "mono": "monobert", "duo": "duobert", "pretrained": "bert"}
"""A preset of each kind, in whose place a recipe's own settings stand, key by key."""


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """The options of the command line that are not part of the recipe."""

    ray_address: str | None = None
    allow_open_cluster: bool = False

    def at(self, recipe: Training) -> WorkPlace:
        """Where the recipe asks to run."""
        return WorkPlace(recipe.resources.backend, self.ray_address, self.allow_open_cluster)


@dataclass(frozen=True, slots=True)
class TrainInvocation:
    """One invocation, as all its trainings see it: what completes its stores, and where."""

    execution: Execution
    chosen: Devices
    place: WorkPlace

    @property
    def workspace(self) -> Workspace:
        """The workspace, which holds those of the collections."""
        return self.execution.workspace

    def say(self, line: str) -> None:
        """Tell the user."""
        self.execution.on_change(line)


def start_model(recipe: Training) -> ModelFolder:
    """The starting weights: any model, whatever its own settings.

    Raises:
        InputError: see `resolve_model`; or its tokenizer lacks a special token of the trained
            model's inputs; or the trained model would be a splade model of another family than
            BERT.
    """
    try:
        model = _start(address(recipe.model.start, recipe.model.revision), recipe)
        trained = conventions_of_training(recipe.model)
        layouts_of(replace(model, conventions=trained))
    except InputError as error:
        raise InputError([f"model.start: {problem}" for problem in error.problems]) from error
    return model


def _start(path: str, recipe: Training) -> ModelFolder:
    if recipe.model.weights == "random":
        assert recipe.model.preset is not None  # see the rules
        return resolve_configuration(path, recipe.model.preset)
    own = path == PACKAGED or is_adapter(folder_of(path))
    if own:
        return resolve_model(path)
    settings = recipe.model.settings
    preset = recipe.model.preset if settings is None else OF_KIND[settings["kind"]]
    if (why := why_library(ModelFiles(folder_of(path)), preset, settings)) is not None:
        raise InputError(
            f"{path}: expected a model that raypipe computes itself, as it trains no other; "
            f"sentence-transformers computes this one: {why}"
        )
    return resolve_model(path, preset, settings=settings)


def check_fits(recipe: Training, start: ModelFolder, chosen: Devices, at: WorkPlace) -> None:
    """Returns nothing if the inputs fit the model and the workers fit the machine.

    Raises:
        InputError: they do not fit.
    """
    problems = long_problems(recipe, start)
    if recipe.model.adapter is not None and start.adapter is not None:
        problems.append(
            f"model.start: {recipe.model.start} is an adapter itself; start from its base "
            "model and name the adapter in model.adapter.start"
        )
    highest, rows = _highest_segment(recipe), start.config().get("type_vocab_size", 2)
    if start.family.files.has_segments and highest >= rows:
        problems.append(
            f"model: its settings use segment {highest}, {recipe.model.start} has {rows} segment "
            f"{'row' if rows == 1 else 'rows'}; name settings with segment 0, or start from another"
        )
    workers = recipe.resources.workers
    if chosen.device == "cuda" and at.ray_address is None and workers > chosen.num_gpus:
        problems.append(f"resources.workers: {workers} requested, {chosen.num_gpus} GPUs found")
    problems += missing_problems(recipe, start)
    problems += adapter_problems(recipe)
    if problems:
        raise InputError(problems)


def _highest_segment(recipe: Training) -> int:
    """The highest segment of the trained model's inputs, of which a third one is made."""
    trained = conventions_of_training(recipe.model)
    if isinstance(trained, Conventions):
        return max(trained.query_segment, trained.passage_segment)
    return int(recipe.masking is None or recipe.masking.next_sentence)


def long_problems(recipe: Training, start: ModelFolder) -> list[str]:
    """The problem of inputs that are longer than the starting model's positions."""
    longest = longest_input(conventions_of_training(recipe.model))
    positions = start.family.files.num_positions(start.config())
    if longest <= positions:
        return []
    return [
        f"model: its limits allow {longest} tokens, {recipe.model.start} has {positions} "
        "positions; lower total_limit or, for an encoder, passage_limit"
    ]
