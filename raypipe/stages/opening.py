"""Opens a model on the device of a stage's worker."""

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from raypipe.models.folder.model_folder import ModelFolder
from raypipe.stages.stage import Site
from raypipe.storage.records import Json


class OpenModel(Protocol):
    """An encoder or a scorer."""

    numerics: str


class Computing(Protocol):
    """What an encoder and a scorer say of their device."""

    @property
    def computed_seconds(self) -> float | None:
        """In which the device computed so far; None if nobody measures it."""


class Stopwatch:
    """The seconds in which a model's device computed, from when this is made."""

    def __init__(self, model: Computing) -> None:
        """It runs."""
        self._model, self._before = model, model.computed_seconds

    def seconds(self) -> float | None:
        """So far; None if nobody measures it."""
        now = self._model.computed_seconds
        return None if now is None or self._before is None else now - self._before


Model = TypeVar("Model", bound=OpenModel)


def open_model(
    load: Callable[..., Model], model: ModelFolder, site: Site, budget_tokens: int | None
) -> tuple[Model, Mapping[str, Json]]:
    """The model, loaded by `load` on the worker's device, and the facts that the worker reports.

    Raises:
        InputError: this worker does not multiply in the model's precision; and the errors of
            `load`.
    """
    import torch

    from raypipe.models.machine.precision import refuse_unable

    refuse_unable(model.precision, site.device)
    found = load(model, device=site.device, threads=site.threads, budget_tokens=budget_tokens)
    facts = {"torch": torch.__version__, "numerics": found.numerics, "device": site.device}
    return found, facts
