"""transformers' modules: their shapes, their configurations, and their outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from inspect import signature
from typing import TYPE_CHECKING, Any

from raypipe.errors import InputError, first_line
from raypipe.models.tensors import Shape
from raypipe.models.units import is_reranker
from raypipe.storage.records import canonical

if TYPE_CHECKING:
    from torch import Tensor, nn

NOT_DECISIVE = ("_name_or_path", "architectures", "dtype", "torch_dtype", "transformers_version")
"""Keys of config.json that say where it comes from."""
OWN_CODE = (
    "auto_map: expected none, found code of the model's own, which raypipe does not run; name a "
    "model that transformers computes by itself"
)
LAST_BIASES = ("classifier.bias", "classifier.out_proj.bias")
"""Ends of the name of a head's last bias in transformers' classes."""


def has_head(config: Mapping[str, Any], names: Iterable[str]) -> bool:
    """Whether a checkpoint is a reranker's: its architecture says so, or all of its tensors do.

    An architecture that is missing, or that of another head, does not lose a head that is there.
    """
    if is_reranker(config):
        return True
    names = set(names)
    if not any(name.endswith(LAST_BIASES) for name in names):
        return False
    wanted = shapes_of(config, head=True)
    return len(names_of(names, wanted, prefix_of(config))) == len(wanted)


def config_of(config: Mapping[str, Any]) -> Any:
    """transformers' configuration, which gives defaults for what config.json leaves out.

    Raises:
        InputError: it refuses the values, or asks for code from the model's folder.
    """
    from transformers import AutoConfig

    if "auto_map" in config:
        raise InputError(OWN_CODE)
    values = {key: value for key, value in config.items() if key not in NOT_DECISIVE}
    kind = values.pop("model_type")
    try:
        return AutoConfig.for_model(kind, **values)
    except Exception as error:  # of many kinds: whatever a configuration's own checks raise
        raise InputError(f"config.json: refused by transformers: {first_line(error)}") from error


def shapes_of(config: Mapping[str, Any], *, head: bool) -> dict[str, Shape]:
    """Shapes of the tensors by transformers' names, without computing or drawing any.

    Those of an encoder's pooler, which is not read, are left out.
    """
    shapes = _shapes(canonical(dict(config)), head)
    return {name: shape for name, shape in shapes if not _unread(name, head)}


def module_of(config: Mapping[str, Any], weights: Mapping[str, Tensor], *, head: bool) -> nn.Module:
    """The module with these weights, which does not drop out.

    Raises:
        InputError: tensors are missing; the message names all.
    """
    module: nn.Module = _built(config, head)
    wanted = module.state_dict()
    named = names_of(weights, wanted, prefix_of(config))
    missing = [name for name in wanted if name not in named and not _unread(name, head)]
    if missing:
        raise InputError([f"the checkpoint lacks the tensor {name}" for name in missing])
    found = {name: weights[place].float() for name, place in named.items()}
    module.load_state_dict(found, strict=False)
    return module.eval()


def built(config: Mapping[str, Any], opened: Any) -> Any:
    """The module that one of transformers' automatic classes makes, with weights that it draws.

    Raises:
        InputError: the configuration or the class refuses config.json.
    """
    made = config_of(config)
    try:
        return opened.from_config(made)
    except Exception as error:  # of many kinds, as above
        raise InputError(f"config.json: refused by transformers: {first_line(error)}") from error


def _built(config: Mapping[str, Any], head: bool) -> Any:
    from transformers import AutoModel, AutoModelForSequenceClassification

    return built(config, AutoModelForSequenceClassification if head else AutoModel)


def _unread(name: str, head: bool) -> bool:
    """Whether no output depends on the tensor: an encoder's pooler."""
    return not head and name.startswith("pooler.")


def names_of(held: Iterable[str], wanted: Iterable[str], prefix: str) -> dict[str, str]:
    """transformers' name -> the checkpoint's, which may have or lack the prefix of the body."""
    names = set(held)
    found = {}
    for name in wanted:
        others = (name, f"{prefix}.{name}", name.removeprefix(f"{prefix}."))
        place = next((other for other in others if other in names), None)
        if place is not None:
            found[name] = place
    return found


def arguments_of(module: nn.Module) -> frozenset[str]:
    """What its forward pass takes."""
    return frozenset(signature(module.forward).parameters)


@lru_cache(maxsize=8)
def _shapes(config: bytes, head: bool) -> tuple[tuple[str, Shape], ...]:
    import json

    import torch

    with torch.device("meta"):
        module = _built(json.loads(config), head)
    return tuple((name, tuple(tensor.shape)) for name, tensor in module.state_dict().items())


def prefix_of(config: Mapping[str, Any]) -> str:
    """What the names of the body's tensors begin with in a model with a head."""
    from transformers import MODEL_MAPPING

    prefix: str = MODEL_MAPPING[type(config_of(config))].base_model_prefix
    return prefix


def version() -> str:
    """transformers' version, which decides the values of a row."""
    import transformers

    return str(transformers.__version__)
