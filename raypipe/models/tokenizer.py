"""A model folder's tokenizer as built, and the hash of everything that determines its ids."""

import base64
import hashlib
import json
import math
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from tokenizers.normalizers import BertNormalizer

from raypipe.errors import InputError, first_line, shown
from raypipe.regular import check_fetched, check_regular
from raypipe.text.tokenize import of_library

_BESIDE = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
"""Files that transformers reads beside a vocab.txt."""
MOST_GROWTH = 64
"""Most characters of one that a tokenizer's replacements may make; published ones make two."""
OF_UNICODE = 32
"""No character has a longer compatibility decomposition; the longest has 18 characters."""


def tokenizer_file(folder: Path) -> Path:
    """The path of tokenizer.json, or of vocab.txt if a model has no other."""
    full = folder / "tokenizer.json"
    return full if full.exists() else folder / "vocab.txt"


def read_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer without truncation and padding; special tokens are added by slicing.

    A vocab.txt is built by transformers, which also reads tokenizer_config.json,
    special_tokens_map.json and added_tokens.json beside it.

    Raises:
        InputError: the files are not a tokenizer.
    """
    file = tokenizer_file(folder)
    check_fetched(file, "a tokenizer")
    for name in _BESIDE if file.name != "tokenizer.json" else ():
        check_regular(folder / name)
    try:
        if file.name == "tokenizer.json":
            tokenizer = Tokenizer.from_file(str(file))
        else:
            from transformers import BertTokenizerFast

            built = BertTokenizerFast.from_pretrained(str(folder), local_files_only=True)
            tokenizer = built.backend_tokenizer
        tokenizer.no_truncation()
        tokenizer.no_padding()
        _check_growth(file, tokenizer)
    except InputError:
        raise
    except BaseException as error:
        # The library's panics are not Exceptions; others that are not (an interrupt) are raised
        # again.
        if not isinstance(error, Exception) and not of_library(error):
            raise
        expected = "a tokenizer.json of the library tokenizers"
        if file.name == "vocab.txt":
            expected = "a BERT vocabulary, and beside it JSON files that transformers reads"
        raise InputError(
            f"{file}: expected {expected}, found: {first_line(error)}; put the model's own "
            "tokenizer files there"
        ) from error
    return tokenizer


def _check_growth(file: Path, tokenizer: Tokenizer) -> None:
    """Returns nothing if the normaliser makes a text not much longer, by the rules it consists of.

    Raises:
        InputError: its replacements make up to more than `MOST_GROWTH` characters of one, which
            would fill the memory before anything could be cut.
    """
    if tokenizer.normalizer is None:
        return
    growth = _growth(json.loads(tokenizer.normalizer.__getstate__()))
    if growth > MOST_GROWTH:
        raise InputError(
            f"{file}: normalizer: expected replacements that make at most {MOST_GROWTH} characters "
            f"of one, found up to {growth:.3g}; put the model's own tokenizer files there"
        )


def _growth(rule: Mapping[str, Any]) -> float:
    """Most characters that a rule makes of one, or of none. Unicode's own tables count as one."""
    if rule["type"] == "Sequence":
        return math.prod(map(_growth, rule["normalizers"]))
    if rule["type"] == "Prepend":
        return 1.0 + len(rule["prepend"])
    if rule["type"] == "Precompiled":
        table = base64.b64decode(rule["precompiled_charsmap"])
        words = table[4 + int.from_bytes(table[:4], "little") :].decode(errors="replace")
        longest = max(map(len, words.split("\0")))
        return longest if longest > OF_UNICODE else 1.0
    if rule["type"] != "Replace":
        return 1.0
    added, found = len(rule["content"]), len(rule["pattern"].get("String", ""))
    return max(1.0, added / found) if found else 1.0 + added  # nothing is between any two


def beyond_table(where: object, vocabulary: Mapping[str, int], rows: int) -> list[str]:
    """The problem of a word piece without one of so many embeddings, which few texts would meet."""
    largest, piece = max(((n, each) for each, n in vocabulary.items()), default=(-1, ""))
    if largest < rows:
        return []
    return [
        f"{where}: expected word pieces 0 to {rows - 1}, for which the model has embeddings, found "
        f"{largest}, {shown(piece)}; take it out of the tokenizer's files, put the model's own "
        "there, or resize the model's embeddings and train them"
    ]


def as_first(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer with the words of BERT's first code, which monoBERT and duoBERT were made with.

    That code does not cut runs of Chinese characters, and knows no special tokens in a text:
    `[SEP]` becomes `[`, `sep` and `]`. A Greek word in capitals that ends in sigma still differs,
    and some rare characters do. The tokenizer is changed in place.

    Raises:
        InputError: its words are not made by BERT's rules.
    """
    if type(tokenizer.normalizer) is not BertNormalizer:
        raise InputError(
            f"first_tokenizer: expected a tokenizer with BERT's normaliser, found "
            f"{type(tokenizer.normalizer).__name__}; name a preset without -reference"
        )
    tokenizer.normalizer.handle_chinese_chars = False
    tokenizer.encode_special_tokens = True
    return tokenizer


def tokenizer_sha256(tokenizer: Tokenizer) -> str:
    """SHA-256 of the tokenizer as built: vocabulary, normaliser, splitting, special tokens.

    It is not a hash of the files: with a vocab.txt, many files decide, by rules that change with
    the version of transformers. The same tokenizer has the same hash from a vocab.txt and from a
    tokenizer.json, and settings that change no id (model_max_length, truncation, padding) are not
    part of it.
    """
    return _sha256_sorted(tokenizer.to_str())


@lru_cache(maxsize=4)
def _sha256_sorted(text: str) -> str:
    """SHA-256 of the JSON with its keys sorted.

    An invocation asks for that of one tokenizer a dozen times.
    """
    body = json.loads(text)
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
