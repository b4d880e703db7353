"""Turns a checkpoint of another program into a model folder.

transformers' from_pretrained and save_pretrained do less, as measured with version 5.23: they read
no .npz, no bert_config.json and no trainer's file that holds the weights under a key; they draw
what a checkpoint lacks, with a warning; and importing them takes a child process three times as
long as torch alone (13 s and 4 s on 2 cores).
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from raypipe.errors import InputError
from raypipe.models.convert.checkpoint import SavedTensors, find_checkpoint, read_checkpoint
from raypipe.models.convert.tensors import Renamed, rename
from raypipe.models.convert.tokenizer import FoundTokenizer, find_tokenizer, write_tokenizer
from raypipe.models.family import family_of
from raypipe.models.folder.conventions import AnyConventions, PairConventions, PretrainedConventions
from raypipe.models.folder.discover import RECORD, Discovered, discover
from raypipe.models.folder.evidence import read_object
from raypipe.models.folder.sentence_transformers import transformer_folder
from raypipe.package import VERSION
from raypipe.storage.files import appear, folder_beside
from raypipe.storage.payloads import writing


def read_config(folder: Path) -> tuple[str, dict[str, Any]]:
    """(file name, content) of config.json, or of bert_config.json as Google wrote it.

    Raises:
        InputError: there is neither, or raypipe cannot compute such a model.
    """
    for name in ("config.json", "bert_config.json"):
        if (folder / name).exists():
            config = read_object(folder / name)
            try:
                problems = family_of(config).files.config_problems(config)
            except InputError as error:
                problems = list(error.problems)
            if problems:
                raise InputError([f"{folder / name}: {problem}" for problem in problems])
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
    try:
        renamed = rename(
            checkpoint.tensors, plan.config, plan.discovered.conventions, segment_row=segment_row
        )
    except InputError as error:
        raise InputError([f"{path}: {problem}" for problem in error.problems]) from error
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
    found = tried(find_checkpoint, inner if path.is_dir() else path)
    config = tried(read_config, inner) if found is not None else None
    discovered = tried(discover, root, preset) if config is not None else None
    folders = [inner, root] if tokenizer is None else [tokenizer]
    opened = tried(find_tokenizer, folders, preset) if config is not None else None
    if problems:
        combined = InputError([line for error in problems for line in error.problems])
        for error in problems:
            for note in getattr(error, "__notes__", ()):
                combined.add_note(note)
        raise combined
    assert found and config and discovered and opened
    return _Plan(found[1], config[0], config[1], discovered, opened)


def _write(
    folder: Path, plan: _Plan, preset: str | None, checkpoint: SavedTensors, renamed: Renamed
) -> Converted:
    config = family_of(plan.config).files.converted_config(
        plan.config, segment_rows=renamed.segment_rows, num_labels=renamed.num_labels
    )
    if isinstance(plan.discovered.conventions, PretrainedConventions):
        heads = family_of(plan.config).pretraining
        whole = heads.shapes(plan.config, next_sentence=True)
        has_all = all(name in renamed.tensors for name in whole)
        config["architectures"] = [heads.architecture(next_sentence=has_all)]
    _write_json(folder / "config.json", config)
    tokenizer, notes = write_tokenizer(plan.tokenizer, folder, config)
    with writing(folder / "model.safetensors"):
        save_file(renamed.tensors, folder / "model.safetensors", metadata={"format": "pt"})
    conventions = plan.discovered.conventions
    if isinstance(conventions, PairConventions):
        conventions = replace(conventions, segment_row=None)  # the table has the row now
    record = {
        "command": "raypipe model convert",
        "raypipe": VERSION,
        "preset": preset,
        "conventions_from": plan.discovered.sources,
        "files": checkpoint.files,
        "renamed": _summed(renamed.renamed),
        "transposed": len(renamed.transposed),
        "left_out": sorted([*renamed.left_out, *checkpoint.others]),
        "segment_row": renamed.segment_row,
        "config": {"file": plan.config_file, "set": _changed(plan.config, config)},
        "tokenizer": tokenizer,
    }
    _write_json(folder / "raypipe.json", {**asdict(conventions), RECORD: record})
    return Converted(folder, conventions, record, [*plan.discovered.notes, *notes])


def _summed(renamed: Mapping[str, str]) -> dict[str, Any]:
    """The number of changed names, and one example: a list of 400 tensors would be too long."""
    first = next(iter(renamed), None)
    return {
        "tensors": len(renamed),
        "example": None if first is None else f"{renamed[first]} -> {first}",
    }


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of config.json that convert changed, each as [old, new]."""
    return {
        name: [before.get(name), value]
        for name, value in after.items()
        if before.get(name) != value
    }


def _write_json(path: Path, body: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(body, indent=2) + "\n")
