"""Opens a model on the device of a stage's worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from raypipe.models.folder.model_folder import ModelFolder
from raypipe.stages.stage import Site
from raypipe.storage.records import Json

if TYPE_CHECKING:  # importing torch takes seconds, and planning does not need it
    from raypipe.models.encoder import Encoder
    from raypipe.models.scorer import Scorer


class Stopwatch:
    """The seconds in which a model's device computed, from when this is made."""

    def __init__(self, model: Encoder | Scorer) -> None:
        """It runs."""
        self._engine = model.engine
        self._before = 0.0 if self._engine is None else self._engine.computed_seconds

    def seconds(self) -> float | None:
        """So far; None if nobody measures it."""
        return None if self._engine is None else self._engine.computed_seconds - self._before


Model = TypeVar("Model", bound="Encoder | Scorer")


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

    said = f"resources.precision, or that in the settings of {model.path}"
    refuse_unable(model.precision, site.device, said)
    found = load(model, device=site.device, threads=site.threads, budget_tokens=budget_tokens)
    # A driver on Ray would import torch to read the version as torch has it, a class of its own.
    facts = {"torch": str(torch.__version__), "numerics": found.numerics, "device": site.device}
    return found, facts
