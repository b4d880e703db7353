"""A T5's tokenizer from its sentencepiece model, where a folder has no tokenizer.json."""

import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from raypipe.errors import InputError
from raypipe.models.t5.files import KINDS

PIECES = "spiece.model"


def read_pieces(folder: Path) -> Tokenizer:
    """The tokenizer that transformers makes of PIECES and the JSON files beside it.

    Raises:
        InputError: config.json names a model of another architecture, whose texts become other
            pieces. What transformers raises is raised as it is.
    """
    from transformers import T5TokenizerFast

    config: Any = json.loads((folder / "config.json").read_bytes())
    kind = config.get("model_type") if isinstance(config, dict) else None
    if kind not in KINDS:
        raise InputError(
            f"{folder / PIECES}: expected tokenizer.json; {PIECES} alone is read for model_type "
            f"{' and '.join(KINDS)}, found {kind!r}. Save the model's tokenizer with transformers: "
            "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)"
        )
    built: Any = T5TokenizerFast.from_pretrained(str(folder), local_files_only=True)
    made: Tokenizer = built.backend_tokenizer
    return made
