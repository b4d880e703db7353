"""Turns a checkpoint of another program into a model folder, with its tokenizer.

The tokenizer is copied, or made from a vocab.txt.

transformers' from_pretrained and save_pretrained do less, as measured with version 5.23: they read
no .npz, no bert_config.json and no trainer's file that holds the weights under a key; they draw
what a checkpoint lacks, with a warning; and importing them takes a child process three times as
long as torch alone (13 s and 4 s on 2 cores).
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from tokenizers import BertWordPieceTokenizer, Tokenizer

from raypipe.errors import InputError, problems_in
from raypipe.models.convert.checkpoint import (
    Renamed,
    find_checkpoint,
    read_checkpoint,
    rename,
)
from raypipe.models.family import family_of
from raypipe.models.folder.discover import RECORD, discover
from raypipe.models.folder.files import read_object, stranger_problems
from raypipe.models.folder.model_folder import tried
from raypipe.models.folder.modules import ModelFiles, table_of
from raypipe.models.folder.settings import (
    AnyConventions,
    Conventions,
    PairConventions,
    predicts_words,
    units_of,
)
from raypipe.models.tensors import Config
from raypipe.models.tokenizer import beyond_table, read_tokenizer
from raypipe.package import VERSION
from raypipe.storage.files import appear, folder_beside
from raypipe.storage.payloads import writing
from raypipe.storage.records import hash_file

FILES = (
    "tokenizer.json",
    "vocab.txt",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
)

OF_LARGE = ". The published large weights use the vocab.txt of bert-large-uncased"
VOCABULARIES = (
    ("repbert", ". RepBERT comes without one and uses the vocab.txt of bert-base-uncased"),
    *((start, OF_LARGE) for start in ("monobert", "duobert")),
)
"""The vocabulary of published weights by the beginning of a preset."""
UNCASED = ("repbert", "monobert", "duobert", "minilm")
"""Prefixes of presets whose weights expect lower-cased text."""


def find_tokenizer(folders: Sequence[Path], preset: str | None) -> tuple[Path, dict[str, Any]]:
    """(the first folder that has a tokenizer, `lower_case` and `lower_case_from` of a vocab.txt).

    Raises:
        InputError: none has one, it is no tokenizer, or a vocab.txt comes without a setting for
            lower case.
    """
    for folder in folders:
        if (folder / "tokenizer.json").exists():
            read_tokenizer(folder)  # or an error
            return folder, {}
        if (folder / "vocab.txt").exists():
            return folder, _case_of(folder, preset)
    vocabulary = next((of for start, of in VOCABULARIES if (preset or "").startswith(start)), "")
    raise InputError(
        f"{folders[0]}: no tokenizer.json or vocab.txt; name a folder that has the one the model "
        f"was trained with: --tokenizer FOLDER{vocabulary}"
    )


def write_tokenizer(
    source: Path, case: Mapping[str, Any], out: Path, config: Config
) -> tuple[dict[str, Any], list[str]]:
    """Put the tokenizer that `find_tokenizer` names into the folder; (what was done, notes).

    Raises:
        InputError: it lacks a special token of the family, or has ids beyond the model's
            vocabulary.
    """
    copied = [name for name in FILES if (source / name).exists()]
    for name in copied:
        shutil.copyfile(source / name, out / name)
    record = {"files": {name: hash_file(out / name) for name in copied}, **case}
    if case:
        made = BertWordPieceTokenizer(str(out / "vocab.txt"), lowercase=case["lower_case"])
        made.save(str(out / "tokenizer.json"))
    if not (out / "tokenizer_config.json").exists():
        body = {"model_max_length": family_of(config).files.num_positions(config)}
        body |= {"do_lower_case": case["lower_case"]} if case else {}
        _write_json(out / "tokenizer_config.json", body | {"tokenizer_class": "BertTokenizer"})
    return record, _checked(source, out, config)


def _checked(source: Path, out: Path, config: Config) -> list[str]:
    tokenizer = Tokenizer.from_file(str(out / "tokenizer.json"))
    problems = [
        f"{source}: the tokenizer has no {token}"
        for token in family_of(config).files.specials
        if tokenizer.token_to_id(token) is None
    ]
    rows, vocabulary = config["vocab_size"], tokenizer.get_vocab()
    problems += beyond_table(source, vocabulary, rows)
    if problems:
        raise InputError(problems)
    used = max(vocabulary.values(), default=-1) + 1
    return [f"the tokenizer uses {used} of the model's {rows} embeddings"] * (used != rows)


def _case_of(folder: Path, preset: str | None) -> dict[str, Any]:
    stated = read_object(folder / "tokenizer_config.json").get("do_lower_case")
    source = "tokenizer_config.json do_lower_case"
    if stated is None and preset is not None and preset.startswith(UNCASED):
        stated, source = True, f"preset {preset}"
    if stated is not None:
        return {"lower_case": bool(stated), "lower_case_from": source}
    raise InputError(
        f"{folder / 'vocab.txt'}: do_lower_case: no file says whether texts are lower-cased; put "
        '{"do_lower_case": true} or false in a tokenizer_config.json beside it'
    )


def read_config(folder: Path) -> tuple[str, dict[str, Any]]:
    """(file name, content) of config.json, or of bert_config.json as Google wrote it.

    Raises:
        InputError: there is neither, or raypipe cannot compute such a model.
    """
    for name in ("config.json", "bert_config.json"):
        if (folder / name).exists():
            config = read_object(folder / name)
            with problems_in(folder / name):
                problems = family_of(config).files.config_problems(config)
                if problems := problems + stranger_problems(config):
                    raise InputError(problems)
            return name, config
    raise InputError(f"{folder}: no config.json or bert_config.json beside the checkpoint")


@dataclass(frozen=True, slots=True)
class Converted:
    """The result of a conversion."""

    folder: Path
    conventions: AnyConventions
    record: dict[str, Any]
    """The content of `made_by` in raypipe.json."""
    notes: list[str]


def convert(
    path: Path,
    out: Path,
    *,
    preset: str | None = None,
    tokenizer: Path | None = None,
    segment_row: str | None = None,
) -> Converted:
    """Write a checkpoint's model folder: config.json, model.safetensors, tokenizer, raypipe.json.

    The folder appears complete or not at all; the same checkpoint and options give the same bytes.

    Args:
        path: a folder, or one file of it: PyTorch's pickles (read with weights_only=True in a
            process of their own), safetensors, or an .npz of TensorFlow's variables.
        out: a folder that does not exist, or is empty.
        preset: settings by name; None means those of raypipe.json or of the folder's own files.
        tokenizer: a folder with tokenizer.json or vocab.txt, if `path` has none.
        segment_row: zero or copy: a duoBERT model's third row if the checkpoint has two.

    Raises:
        InputError: a pickle with more than tensors, missing tensors (also of the head), no
            tokenizer, or incomplete settings; nothing is written.
    """
    root = path if path.is_dir() else path.parent
    given = ModelFiles(root)
    inner = given.transformer.folder
    files = find_checkpoint(inner if path.is_dir() else path)
    problems: list[str] = []
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        problems.append(f"{out}: expected a folder that does not exist or is empty")
    read = tried(read_config, inner, problems=problems)
    discovered = None if read is None else tried(discover, given, preset, problems=problems)
    folders = [inner, root] if tokenizer is None else [tokenizer]
    opened = tried(find_tokenizer, folders, preset, problems=problems)
    if discovered is not None and read is not None:
        tried(table_of, root, discovered.conventions, read[1], problems=problems)
    if problems:
        raise InputError(problems)
    assert read is not None and discovered is not None and opened is not None
    (config_file, config), own = read, discovered.conventions
    checkpoint = read_checkpoint(files)
    with problems_in(path):
        renamed = rename(checkpoint.tensors, config, own, segment_row=segment_row)
    if isinstance(own, PairConventions):
        own = replace(own, segment_row=None)  # the table has the row now
    with folder_beside(out) as building:
        _write_json(building / "config.json", _config_of(config, own, renamed))
        tokenizer_record, notes = write_tokenizer(*opened, building, config)
        with writing(building / "model.safetensors"):
            save_file(renamed.tensors, building / "model.safetensors", metadata={"format": "pt"})
        if isinstance(own, Conventions) and own.query_table is not None:
            shutil.copytree(root / own.query_table, building / own.query_table)
        record = {
            "command": "raypipe model convert",
            "raypipe": VERSION,
            "preset": preset,
            "conventions_from": discovered.sources,
            "files": checkpoint.files,
            "left_out": sorted([*renamed.left_out, *checkpoint.others]),
            "segment_row": renamed.segment_row,
            "config": config_file,
            "tokenizer": tokenizer_record,
        }
        _write_json(building / "raypipe.json", {**asdict(own), RECORD: record})
        appear(building, out)
    return Converted(out, own, record, [*discovered.notes, *notes])


def _config_of(config: Config, own: AnyConventions, renamed: Renamed) -> dict[str, Any]:
    """config.json of the written folder."""
    family = family_of(config)
    body = family.files.converted_config(
        config, segment_rows=renamed.segment_rows, num_labels=units_of(own)
    )
    if predicts_words(own):
        heads = family.pretraining
        whole = heads.shapes(config, next_sentence=True)
        has_all = all(name in renamed.tensors for name in whole)
        body["architectures"] = [heads.architecture(next_sentence=has_all)]
        body |= heads.TIED if isinstance(own, Conventions) else {}
    return body


def _write_json(path: Path, body: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(body, indent=2) + "\n")
