"""A model folder's tokenizer as it is built, and the hash of all that decides its ids."""

import hashlib
import json
from pathlib import Path

from tokenizers import Tokenizer

from raypipe.errors import InputError, first_line


def tokenizer_file(folder: Path) -> Path:
    """tokenizer.json, or vocab.txt where a model has no other."""
    full = folder / "tokenizer.json"
    return full if full.exists() else folder / "vocab.txt"


def read_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer with truncation and padding off; specials are added by slicing.

    A vocab.txt is built by transformers, which also reads tokenizer_config.json,
    special_tokens_map.json and added_tokens.json beside it.

    Raises:
        InputError: the files are no tokenizer.
    """
    file = tokenizer_file(folder)
    try:
        if file.name == "tokenizer.json":
            tokenizer = Tokenizer.from_file(str(file))
        else:
            from transformers import BertTokenizerFast

            built = BertTokenizerFast.from_pretrained(str(folder), local_files_only=True)
            tokenizer = built.backend_tokenizer
        tokenizer.no_truncation()
        tokenizer.no_padding()
    except BaseException as error:
        # The library's panics are no Exception; what else is none (an interrupt) goes its way.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        expected = "a tokenizer.json of the library tokenizers"
        if file.name == "vocab.txt":
            expected = "a BERT vocabulary, and beside it JSON files that transformers reads"
        raise InputError(
            f"{file}: expected {expected}, found: {first_line(error)}; put the model's own "
            "tokenizer files there"
        ) from error
    return tokenizer


def tokenizer_sha256(tokenizer: Tokenizer) -> str:
    """SHA-256 of the tokenizer as built: vocabulary, normaliser, splitting, specials.

    Not of its files. Of a vocab.txt many files decide, by rules of transformers' that change with
    its versions; the same tokenizer has one hash from a vocab.txt and from a tokenizer.json, and a
    setting that changes no id (model_max_length, truncation, padding) is not in it.
    """
    body = json.loads(tokenizer.to_str())
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
