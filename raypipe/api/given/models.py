"""Models by folder or packaged name, and the device that they run on."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from raypipe import numerics
from raypipe.errors import InputError

if TYPE_CHECKING:
    from raypipe.models.folder.model_folder import ModelFolder

DEVICES = ("auto", "cpu", "cuda")


def model_of(model: str | Path, preset: str | None) -> "ModelFolder":
    """The model of a folder, or of a packaged name; its files are hashed, not loaded.

    It sets MKL's strict mode, as the command line does, unless MKL_CBWR is set: then a row has the
    bytes that a pipeline stores. The mode takes effect if nothing has multiplied matrices in this
    process before.

    Raises:
        InputError: there is no such model, or it cannot be used; see `resolve_model`.
    """
    numerics.set_strict()
    from raypipe.models.folder.loading import resolve_model

    return resolve_model(str(model), preset)


def device_of(device: str) -> str:
    """cpu or cuda; auto means cuda if torch can use it.

    Raises:
        InputError: another word, or cuda if torch cannot use it.
    """
    if device not in DEVICES:
        raise InputError(f"device: expected one of {', '.join(DEVICES)}; found {device!r}")
    return _chosen(device)


@cache
def _chosen(device: str) -> str:
    from raypipe.driver.machine.devices import choose

    return choose(device).device
