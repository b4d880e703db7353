"""Opens a model on the device of a stage's worker."""

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from raypipe.models.folder.model_folder import ModelFolder
from raypipe.stages.stage import Site
from raypipe.storage.records import Json


class OpenModel(Protocol):
    """An encoder or a scorer."""

    numerics: str


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
