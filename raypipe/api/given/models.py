"""Models by folder or packaged name, and the device that they run on."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raypipe import numerics
from raypipe.config.parts import PACKAGED_MODELS
from raypipe.errors import InputError
from raypipe.hub_names import hub_name
from raypipe.vocabulary import Precisions, words

if TYPE_CHECKING:
    from raypipe.models.folder.model_folder import ModelFolder

DEVICES = ("auto", "cpu", "cuda")


def model_of(
    model: str | Path, preset: str | None, *, settings: Mapping[str, Any] | None = None
) -> "ModelFolder":
    """The model of a folder, a packaged name or a hub's name; its files are hashed, not loaded.

    A hub's, such as OWNER/NAME@COMMIT, is taken from huggingface_hub's own cache, where it is
    fetched to. `settings` are keys of raypipe.json that override the folder's own.

    It sets MKL's strict mode, as the command line does, unless MKL_CBWR is set: then a row has the
    bytes that a pipeline stores. The mode takes effect if nothing has multiplied matrices in this
    process before.

    Raises:
        InputError: there is no such model, or it cannot be used; see `resolve_model`.
    """
    numerics.set_strict()
    from raypipe.driver.models.fitting import unfit
    from raypipe.models.folder.loading import resolve_model

    path = str(model)
    named = None if path in PACKAGED_MODELS else hub_name(path, Path())
    if named is not None:
        from raypipe.models.hub import pinned

        path = pinned(named)
    found = resolve_model(path, preset, settings=settings)
    problems = unfit(found)
    if problems:
        raise InputError(problems)
    return found


def settings_of(prompts: Mapping[str, str] | None) -> dict[str, str] | None:
    """The settings that put these texts in front of queries and passages; None if none are given.

    Raises:
        InputError: another key than query and passage.
    """
    if prompts is None:
        return None
    if not isinstance(prompts, Mapping) or not {*prompts} <= {"query", "passage"}:
        raise InputError(
            'prompts: expected text by side, such as {"query": "query: ", "passage": "passage: "}, '
            f"found {prompts!r:.80}"
        )
    return {f"{side}_prefix": prompts.get(side, "") for side in ("query", "passage")}


def device_of(device: str) -> str:
    """cpu or cuda; auto means cuda if torch can use it.

    Raises:
        InputError: another word, or cuda if torch cannot use it.
    """
    if device not in DEVICES:
        raise InputError(f"device: expected one of {', '.join(DEVICES)}; found {device!r}")
    return _chosen(device, "auto")[0]


def placed(model: "ModelFolder", device: str, precision: str) -> tuple["ModelFolder", str]:
    """The model in a precision, unless it has its own, and the device (see `device_of`).

    As in a pipeline, auto means fp32 on a CPU, on a GPU bf16 or, before Ampere, fp16; fastest means
    the same on a GPU, on a CPU the first of int8+bf16, int8, bf16 and fp32 that it computes in.

    Raises:
        InputError: another word, or a precision, here or of the model's own, in which the device
            does not multiply.
    """
    from raypipe.models.machine.precision import refuse_unable

    device_of(device)
    known = ("auto", "fastest", *words(Precisions))
    if precision not in known:
        raise InputError(f"precision: expected one of {', '.join(known)}; found {precision!r}")
    found, of_device = _chosen(device, precision)
    own = model.in_precision(of_device)
    refuse_unable(own.precision, found, f"the settings of {model.path}: precision")
    return own, found


@cache
def _chosen(device: str, precision: str) -> tuple[str, str]:
    """Device and precision."""
    from raypipe.driver.machine.devices import choose

    found = choose(device, precision=precision)
    return found.device, found.precision
