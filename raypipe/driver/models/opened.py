"""Opens every model of a recipe before its first store: a model that cannot be used costs no work.

Read are config.json, the tokenizer, the header of the weights and the bytes for their hash; nothing
is computed, so a driver on a machine without an accelerator can do it too.
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial

from raypipe.config import Recipe
from raypipe.config.parts import Model
from raypipe.config.stages import DuoScore, Encode, MonoScore
from raypipe.driver.machine.inputs import has_copies
from raypipe.driver.models.fitting import unfit
from raypipe.errors import InputError
from raypipe.hub_names import HubName, address, is_hub
from raypipe.models.folder.model_folder import ModelFolder, resolve_model
from raypipe.models.hub import snapshot_of


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
    found: dict[str, ModelFolder] = {}
    problems: list[str] = []
    for name, wanted in recipe.models.items():
        of_hub = is_hub(wanted.path)
        if of_hub and not HubName(wanted.path, wanted.revision).is_commit:
            continue  # the hub did not say its commit, which is among the problems already
        told: list[str] = []
        try:
            if of_hub:
                uri = address(wanted.path, wanted.revision)
                snapshot_of(uri, partial(_say, say, f"models.{name}"))
            found[name] = opened(wanted, recipe.resources.precision)
            told += unfit(found[name])
        except InputError as error:
            told += error.problems
        problems += [f"models.{name}: {problem}" for problem in dict.fromkeys(told)]
    for name in selected:
        stage = recipe.stages[name]
        if isinstance(stage, Encode | MonoScore | DuoScore) and stage.model in found:
            try:
                check_kind(found[stage.model], name, stage)
            except InputError as error:
                problems += error.problems
    if problems:
        raise InputError(problems)
    return found


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


def opened(wanted: Model, precision: str) -> ModelFolder:
    """One model of a recipe, hashed; `auto` and `fastest` leave its precision open.

    Raises:
        InputError: see `resolve_model`.
    """
    path = address(wanted.path, wanted.revision)
    found = resolve_model(
        path, wanted.preset, segment_row=wanted.segment_row, settings=wanted.settings
    )
    return found if precision in ("auto", "fastest") else found.in_precision(precision)


def check_kind(model: ModelFolder, name: str, stage: Encode | MonoScore | DuoScore) -> None:
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
    wanted = "mono" if isinstance(stage, MonoScore) else "duo"
    if conventions.kind != wanted:
        remedy = "give k1 (and no k0)" if conventions.kind == "duo" else "give k0 (and no k1)"
        raise InputError(
            f"stages.{name}: {stage.model} is of kind {conventions.kind}, and the stage needs a "
            f"model of kind {wanted}; {remedy}"
        )
