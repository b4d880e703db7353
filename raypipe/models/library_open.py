"""Opens a model with sentence-transformers: none of the folder's code, no pickle, every weight.

The library itself would draw a weight that is missing. A folder is described on torch's device
`meta`, without reading its weights.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from logging import getLogger
from pathlib import Path
from threading import RLock
from typing import Any

from raypipe.errors import InputError, first_line
from raypipe.models.folder.files import first_of
from raypipe.models.folder.modules import ModelFiles
from raypipe.models.folder.settings import OF_WORDS, SPLADE_LOG
from raypipe.models.library_class import POOLINGS, PROMPTED

NO_TOKEN = -1
"""An id that no token has."""
_opening = RLock()
"""Opening a model changes classes of transformers for the whole process for a while."""


def open_by_library(folder: Path, name: str, how: Any, device: str) -> Any:
    """The model, fp32, by the libraries' own code alone; on meta without its weights.

    Args:
        folder: the model's.
        name: of CLASSES.
        how: the pooling of a transformer alone, or the settings of one that reads a prompt.
        device: meta, cpu or cuda.

    Raises:
        InputError: the library cannot open it, or a weight is missing.
    """
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import torch

    weights: dict[str, Any] = {"dtype": torch.float32, "use_safetensors": True}
    weights |= {"device_map": "meta"} if device == "meta" else {}  # without reading them
    head = name in ("CrossEncoder", PROMPTED)
    told = explained(folder, f"open it as {name}", partial(why_not_opened, folder))
    with _opening, every_weight(folder, head=head), told:
        return _opened(folder, name, how, weights, device).float().eval()


@contextmanager
def explained(
    folder: Path, what: str, why: Callable[[Exception], str] = first_line
) -> Iterator[None]:
    """Gives what the library raises, of many kinds, the folder and what it could not do with it.

    Raises:
        InputError: it raised something, but for want of memory or for a device.
    """
    import torch

    try:
        yield
    except (InputError, MemoryError, torch.OutOfMemoryError, torch.AcceleratorError):
        raise
    except Exception as error:
        raise InputError(f"{folder}: sentence-transformers cannot {what}: {why(error)}") from error


def why_not_opened(folder: Path, error: Exception) -> str:
    """The first line of an error of the library, or of its tokenizer's, such as a package that is
    not installed, which the library leaves out."""
    from transformers import AutoTokenizer

    try:
        place = ModelFiles(folder).transformer.folder
        if (place / "tokenizer_config.json").exists():
            AutoTokenizer.from_pretrained(str(place), local_files_only=True)
    except Exception as hidden:  # of many kinds, as the other
        return first_line(hidden)
    return first_line(error)


def _opened(folder: Path, name: str, how: Any, weights: dict[str, Any], device: str) -> Any:
    import sentence_transformers as library

    place, own = None if device == "meta" else device, {"local_files_only": True}
    if name == PROMPTED:
        from raypipe.models.prompted import Prompted

        return Prompted(folder, how, weights).to(device)
    opens = getattr(library, name)
    if how in POOLINGS:
        from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

        first = Transformer(str(folder), model_kwargs=weights | own)
        pooled = Pooling(first.get_embedding_dimension(), POOLINGS[how])
        return opens(modules=[first, pooled], device=device)
    if how in OF_WORDS:
        from sentence_transformers.base.modules import Transformer
        from sentence_transformers.sparse_encoder.modules import SpladePooling

        first = Transformer(str(folder), transformer_task="fill-mask", model_kwargs=weights | own)
        pooling = SpladePooling("max", "log1p_relu" if how == SPLADE_LOG else "relu")
        return opens(modules=[first, pooling], device=device)
    made = opens(str(folder), device=place, model_kwargs=weights, trust_remote_code=False, **own)
    if name == "CrossEncoder":
        _without_padding(made)
    return made


def _without_padding(model: Any) -> None:
    """Lets decoders without a padding token read several inputs, which are never padded here.

    transformers then refuses more than one, or else takes the last token that is not padding.
    """
    for module in model.modules():
        config: Any = getattr(module, "config", None)
        own = config.get_text_config() if hasattr(config, "get_text_config") else None
        if own is not None and getattr(own, "pad_token_id", 0) is None:
            own.pad_token_id = NO_TOKEN


@contextmanager
def every_weight(folder: Path, *, head: bool) -> Iterator[None]:
    """While transformers opens models: each must have all weights that it reads.

    Args:
        folder: named in problems.
        head: whether a missing pooler is a problem, as a head reads it.

    Raises:
        InputError: one would draw missing weights or those of other sizes, or leave out those of
            further layers.
    """
    from transformers import PreTrainedModel
    from transformers.utils import logging

    own = PreTrainedModel.__dict__["from_pretrained"]
    problems: list[str] = []

    def reported(cls: Any, *given: Any, **more: Any) -> Any:
        more |= {"output_loading_info": True, "ignore_mismatched_sizes": True}
        model, report = own.__func__(cls, *given, **more)
        missing = [key for key in report["missing_keys"] if head or ".pooler." not in f".{key}"]
        lacking = [f"{folder}: the checkpoint lacks the tensor {k}" for k in sorted(missing)]
        problems.extend(first_of(lacking))
        if lacking and (unread := sorted(report["unexpected_keys"])):
            problems.append(
                f"{folder}: {unread[0]}: no such tensor in the model; if a compiler or trainer "
                "gave the weights such names, save them anew under those that the library reads"
            )
        sizes = [
            f"{folder}: {key}: expected shape {[*wanted]} from config.json, found {[*found]}"
            for key, found, wanted in sorted(report["mismatched_keys"])
        ]
        problems.extend(first_of(sizes))
        layers = {re.sub(r"\d+", "", key) for key in model.state_dict()}
        others = [k for k in sorted(report["unexpected_keys"]) if re.sub(r"\d+", "", k) in layers]
        problems.extend(
            f"{folder}: {key}: no such tensor in a model of the sizes in config.json; with it, the "
            f"checkpoint has {len(others)} of further layers"
            for key in others[:1]
        )
        return model

    logger = getLogger("sentence_transformers")
    with ExitStack() as restored:
        restored.callback(setattr, PreTrainedModel, "from_pretrained", own)
        restored.callback(logging.set_verbosity, logging.get_verbosity())
        restored.callback(logger.setLevel, logger.level)
        if logging.is_progress_bar_enabled():
            restored.callback(logging.enable_progress_bar)
        setattr(PreTrainedModel, "from_pretrained", classmethod(reported))  # noqa: B010
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        logger.setLevel("ERROR")
        yield
    if problems:
        raise InputError(problems)
