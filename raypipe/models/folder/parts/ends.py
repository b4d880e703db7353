"""Whether a folder's two files agree on the special tokens around a text."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from raypipe.errors import InputError
from raypipe.models.folder.evidence import read_object
from raypipe.models.whole import DECODERS
from raypipe.models.whole.family import ends_of


def ends_problems(folder: Path, tokenizer: Tokenizer, config: Mapping[str, Any]) -> list[str]:
    """What a decoder's tokenizer_config.json asks for and its tokenizer.json does not do.

    Releases of transformers differ on who is right, and the embedding is the state of such a token.

    Raises:
        InputError: tokenizer_config.json is no object.
    """
    file = folder / "tokenizer_config.json"
    stated = read_object(file) if config.get("model_type") in DECODERS else {}
    asked = {side: stated.get(f"add_{side}_token") is True for side in ("bos", "eos")}
    if tokenizer.post_processor is None or not any(asked.values()):
        return []
    try:
        found = dict(zip(asked, ends_of(tokenizer), strict=True))
    except InputError as error:
        return [f"{folder}: {problem}" for problem in error.problems]
    where = {"bos": "before", "eos": "after"}
    return [
        f"{file}: add_{side}_token: expected none, as tokenizer.json adds no token "
        f"{where[side]} a text, found true; add it to the post_processor of tokenizer.json if the "
        "model was trained with it, or remove the key if it was not"
        for side in asked
        if asked[side] and found[side] is None
    ]
