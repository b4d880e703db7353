"""The tokenizer of a converted model: copied, or made from a vocab.txt or a spiece.model."""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import BertWordPieceTokenizer, Tokenizer

from raypipe.errors import InputError
from raypipe.models.family import family_of
from raypipe.models.folder.evidence import read_object
from raypipe.models.t5.files import PIECES, reads_prompts
from raypipe.models.tokenizer import read_tokenizer
from raypipe.storage.records import hash_file

FILES = (
    "tokenizer.json",
    "vocab.txt",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
)

UNCASED = ("repbert", "monobert", "duobert", "minilm")
"""Prefixes of presets whose weights expect lower-cased text."""


@dataclass(frozen=True, slots=True)
class FoundTokenizer:
    """A tokenizer's place and its handling of case."""

    folder: Path
    lower_case: bool | None
    """Only for a vocab.txt; None if tokenizer.json or spiece.model states it."""
    lower_case_from: str | None


def find_tokenizer(folders: Sequence[Path], preset: str | None) -> FoundTokenizer:
    """The first folder that has a tokenizer.

    Raises:
        InputError: none has one, or a vocab.txt comes without a setting for lower case.
    """
    for folder in folders:
        if (folder / "tokenizer.json").exists():
            return FoundTokenizer(folder, None, None)
        if (folder / "vocab.txt").exists():
            return _of_vocabulary(folder, preset)
        if (folder / PIECES).exists():
            return FoundTokenizer(folder, None, None)
    wanted = _vocabulary_of(preset)
    raise InputError(
        f"{folders[0]}: no tokenizer.json or vocab.txt; name a folder that has the one the model "
        f"was trained with: --tokenizer FOLDER{wanted}"
    )


def write_tokenizer(
    found: FoundTokenizer, out: Path, config: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Put the tokenizer into the folder; returns (what was done, notes).

    Raises:
        InputError: it lacks a special token of the family, or has ids beyond the model's
            vocabulary.
    """
    copied = [name for name in FILES if (found.folder / name).exists()]
    for name in copied:
        shutil.copyfile(found.folder / name, out / name)
    record: dict[str, Any] = {"files": {name: hash_file(out / name) for name in copied}}
    if found.lower_case is not None:
        made = BertWordPieceTokenizer(str(out / "vocab.txt"), lowercase=found.lower_case)
        made.save(str(out / "tokenizer.json"))
        record |= {"lower_case": found.lower_case, "lower_case_from": found.lower_case_from}
    elif not (out / "tokenizer.json").exists():
        read_tokenizer(found.folder).save(str(out / "tokenizer.json"))
        record |= {"made_from": {PIECES: hash_file(found.folder / PIECES)}}
    if not (out / "tokenizer_config.json").exists():
        body: dict[str, Any] = {"model_max_length": family_of(config).files.num_positions(config)}
        if found.lower_case is not None:
            body |= {"do_lower_case": found.lower_case}
        body["tokenizer_class"] = "T5Tokenizer" if reads_prompts(config) else "BertTokenizer"
        (out / "tokenizer_config.json").write_text(json.dumps(body, indent=2) + "\n")
    return record, _checked(found.folder, out, config)


def _checked(source: Path, out: Path, config: Mapping[str, Any]) -> list[str]:
    tokenizer = Tokenizer.from_file(str(out / "tokenizer.json"))
    problems = [
        f"{source}: the tokenizer has no {token}"
        for token in family_of(config).files.SPECIAL_TOKENS
        if tokenizer.token_to_id(token) is None
    ]
    rows, pieces = config["vocab_size"], max(tokenizer.get_vocab().values(), default=-1) + 1
    if pieces > rows:
        problems.append(
            f"{source}: the tokenizer has {pieces} word pieces, the model embeddings of {rows}; "
            "it is another model's"
        )
    if problems:
        raise InputError(problems)
    same = pieces == rows
    return [] if same else [f"the tokenizer uses {pieces} of the model's {rows} embeddings"]


def _of_vocabulary(folder: Path, preset: str | None) -> FoundTokenizer:
    stated = read_object(folder / "tokenizer_config.json").get("do_lower_case")
    if stated is not None:
        return FoundTokenizer(folder, bool(stated), "tokenizer_config.json do_lower_case")
    if preset is not None and preset.startswith(UNCASED):
        return FoundTokenizer(folder, True, f"preset {preset}")
    raise InputError(
        f"{folder / 'vocab.txt'}: do_lower_case: no file says whether texts are lower-cased; put "
        '{"do_lower_case": true} or false in a tokenizer_config.json beside it'
    )


def _vocabulary_of(preset: str | None) -> str:
    if preset is None:
        return ""
    if preset == "repbert":
        return ". RepBERT comes without one and uses the vocab.txt of bert-base-uncased"
    if preset.startswith(("monobert", "duobert")):
        return ". The published large weights use the vocab.txt of bert-large-uncased"
    return ""
