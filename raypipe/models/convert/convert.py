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
    SavedTensors,
    find_checkpoint,
    read_checkpoint,
    rename,
)
from raypipe.models.family import family_of
from raypipe.models.folder.discover import RECORD, Discovered, discover
from raypipe.models.folder.files import read_object
from raypipe.models.folder.modules import table_of, transformer_folder
from raypipe.models.folder.settings import (
    AnyConventions,
    Conventions,
    PairConventions,
    predicts_words,
    units_of,
)
from raypipe.models.tensors import Config
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

UNCASED = ("repbert", "monobert", "duobert", "minilm")
"""Prefixes of presets whose weights expect lower-cased text."""


@dataclass(frozen=True, slots=True)
class FoundTokenizer:
    """A tokenizer's place and its handling of case."""

    folder: Path
    lower_case: bool | None
    """Only for a vocab.txt; None if tokenizer.json states it."""
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
    vocabulary = _vocabulary_of(preset)
    raise InputError(
        f"{folders[0]}: no tokenizer.json or vocab.txt; name a folder that has the one the model "
        f"was trained with: --tokenizer FOLDER{vocabulary}"
    )


def write_tokenizer(
    tokenizer: FoundTokenizer, out: Path, config: Config
) -> tuple[dict[str, Any], list[str]]:
    """Put the tokenizer into the folder; returns (what was done, notes).

    Raises:
        InputError: it lacks a special token of the family, or has ids beyond the model's
            vocabulary.
    """
    copied = [name for name in FILES if (tokenizer.folder / name).exists()]
    for name in copied:
        shutil.copyfile(tokenizer.folder / name, out / name)
    record: dict[str, Any] = {"files": {name: hash_file(out / name) for name in copied}}
    if tokenizer.lower_case is not None:
        made = BertWordPieceTokenizer(str(out / "vocab.txt"), lowercase=tokenizer.lower_case)
        made.save(str(out / "tokenizer.json"))
        record |= {"lower_case": tokenizer.lower_case, "lower_case_from": tokenizer.lower_case_from}
    if not (out / "tokenizer_config.json").exists():
        body: dict[str, Any] = {"model_max_length": family_of(config).files.num_positions(config)}
        if tokenizer.lower_case is not None:
            body |= {"do_lower_case": tokenizer.lower_case}
        body["tokenizer_class"] = "BertTokenizer"
        (out / "tokenizer_config.json").write_text(json.dumps(body, indent=2) + "\n")
    return record, _checked(tokenizer.folder, out, config)


def _checked(source: Path, out: Path, config: Config) -> list[str]:
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
                if problems:
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


@dataclass(frozen=True, slots=True)
class _Plan:
    """Everything known before a tensor is read."""

    root: Path
    files: list[Path]
    config_file: str
    config: dict[str, Any]
    discovered: Discovered
    tokenizer: FoundTokenizer


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
    plan = _planned(path, out, preset, tokenizer)
    checkpoint = read_checkpoint(plan.files)
    with problems_in(path):
        renamed = rename(
            checkpoint.tensors, plan.config, plan.discovered.conventions, segment_row=segment_row
        )
    with folder_beside(out) as building:
        converted = _write(building, plan, preset, checkpoint, renamed)
        appear(building, out)
    return replace(converted, folder=out)


def _planned(path: Path, out: Path, preset: str | None, tokenizer: Path | None) -> _Plan:
    """The plan; raises all problems that can be found before the weights are read."""
    problems: list[InputError] = []

    def tried(step: Any, *arguments: Any) -> Any:
        try:
            return step(*arguments)
        except InputError as error:
            problems.append(error)
            return None

    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        problems.append(InputError(f"{out}: expected a folder that does not exist or is empty"))
    root = path if path.is_dir() else path.parent
    inner = transformer_folder(root)
    checkpoint = tried(find_checkpoint, inner if path.is_dir() else path)
    config = tried(read_config, inner) if checkpoint is not None else None
    discovered = tried(discover, root, preset) if config is not None else None
    folders = [inner, root] if tokenizer is None else [tokenizer]
    opened = tried(find_tokenizer, folders, preset) if config is not None else None
    if discovered is not None and config is not None:
        tried(table_of, root, discovered.conventions, config[1])
    if problems:
        combined = InputError([line for error in problems for line in error.problems])
        for error in problems:
            for note in getattr(error, "__notes__", ()):
                combined.add_note(note)
        raise combined
    assert checkpoint and config and discovered and opened
    return _Plan(root, checkpoint[1], config[0], config[1], discovered, opened)


def _write(
    folder: Path, plan: _Plan, preset: str | None, checkpoint: SavedTensors, renamed: Renamed
) -> Converted:
    family, conventions = family_of(plan.config), plan.discovered.conventions
    config = family.files.converted_config(
        plan.config, segment_rows=renamed.segment_rows, num_labels=units_of(conventions)
    )
    if predicts_words(conventions):
        heads = family.pretraining
        whole = heads.shapes(plan.config, next_sentence=True)
        has_all = all(name in renamed.tensors for name in whole)
        config["architectures"] = [heads.architecture(next_sentence=has_all)]
        config |= heads.TIED if isinstance(conventions, Conventions) else {}
    _write_json(folder / "config.json", config)
    tokenizer, notes = write_tokenizer(plan.tokenizer, folder, config)
    with writing(folder / "model.safetensors"):
        save_file(renamed.tensors, folder / "model.safetensors", metadata={"format": "pt"})
    if isinstance(conventions, Conventions) and conventions.query_table is not None:
        shutil.copytree(plan.root / conventions.query_table, folder / conventions.query_table)
    if isinstance(conventions, PairConventions):
        conventions = replace(conventions, segment_row=None)  # the table has the row now
    record = {
        "command": "raypipe model convert",
        "raypipe": VERSION,
        "preset": preset,
        "conventions_from": plan.discovered.sources,
        "files": checkpoint.files,
        "left_out": sorted([*renamed.left_out, *checkpoint.others]),
        "segment_row": renamed.segment_row,
        "config": plan.config_file,
        "tokenizer": tokenizer,
    }
    _write_json(folder / "raypipe.json", {**asdict(conventions), RECORD: record})
    return Converted(folder, conventions, record, [*plan.discovered.notes, *notes])


def _write_json(path: Path, body: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(body, indent=2) + "\n")
