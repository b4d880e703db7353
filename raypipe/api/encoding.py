"""Texts as embeddings."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from raypipe.api.given.models import model_of, placed, settings_of
from raypipe.api.given.texts import Given, texts_of
from raypipe.errors import InputError

SIDES = ("passage", "query")


def encode(
    texts: Given,
    model: str | Path = "minilm",
    *,
    side: str = "passage",
    preset: str | None = None,
    prompts: Mapping[str, str] | None = None,
    device: str = "auto",
    precision: str = "auto",
) -> NDArray[np.float16]:
    """One embedding per text, float16 [texts, dimension], in the order of the texts.

    The bytes are those that a pipeline's `encode` stage stores: rounded to the nearest
    float16, and independent of the other texts. The model stays open for the next call.

    Args:
        texts: a list, a dictionary id -> text, or a table with a text column and ids.
        model: `minilm`, or the folder or hub's name of an encoder.
        side: passage or query: some models treat the two differently.
        preset: settings by name, if the folder does not state them.
        prompts: text put in front of queries and passages, {"query": ..., "passage": ...}, in the
            place of the model's own; a side that is not named gets none.
        device: auto, cpu or cuda.
        precision: auto, fastest, fp32, tf32, bf16, fp16, int8 or int8+bf16, of the model's
            products; see `docs/commands.md`.

    Raises:
        InputError: no texts, no such model, or a model that is not an encoder.
        RowsFailed: embeddings that are not finite, with their rows.
    """
    if side not in SIDES:
        raise InputError(f"side: expected one of {', '.join(SIDES)}; found {side!r}")
    found = texts_of(texts, side)
    opened = model_of(model, preset, settings=settings_of(prompts))
    assert opened.encoder.kind == "encoder"  # otherwise `encoder` raises
    from raypipe.stages.in_memory import encode_texts

    opened, where = placed(opened, device, precision)
    return encode_texts(opened, found.texts, side=side, device=where)
