"""A checkpoint of another program: its files, its tensors, and the names that raypipe reads.

Tensors are read from safetensors, a pickle or numpy's archive, checked against the settings, and
renamed to the names that transformers and raypipe read.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError

from raypipe.errors import InputError
from raypipe.models.family import Files, family_of
from raypipe.models.folder.settings import (
    OF_WORDS,
    SEGMENT_ROWS,
    AnyConventions,
    Conventions,
    PairConventions,
    PretrainedConventions,
)
from raypipe.models.tensors import (
    PICKLES,
    Config,
    Named,
    TensorSource,
    expected_units,
    shape_problems,
    third_segment_problems,
    with_third_segment,
)
from raypipe.regular import check_ratio
from raypipe.storage.records import hash_file

if TYPE_CHECKING:  # importing torch takes seconds, and checking does not need it
    from torch import Tensor

    from raypipe.models.tensors import Tensors


STANDARD = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
"""The names that transformers writes, safe formats first."""
TENSORFLOW_RECIPE = """\
import numpy, tensorflow as tf
r = tf.train.load_checkpoint({prefix!r})
numpy.savez({npz!r}, **{{n: r.get_tensor(n) for n in r.get_variable_to_shape_map()}})"""
CHILD = Path(__file__).with_name("child.py")
CHILD_SECONDS = 600
LFS_POINTER = b"version https://git-lfs.github.com"
logger = logging.getLogger(__name__)


def find_checkpoint(path: Path) -> tuple[Path, list[Path]]:
    """(folder, files in it) of a checkpoint: the named file, or the only one in a folder.

    Raises:
        InputError: none, several, or a TensorFlow checkpoint (with the way to read it).
    """
    if path.is_dir():
        return path, _in_folder(path)
    if path.is_file() and path.suffix != ".index" and ".data-" not in path.name:
        return path.parent, _listed(path) if path.name.endswith(".index.json") else [path]
    if path.is_file() or path.with_name(path.name + ".index").exists():
        raise _tensorflow(path.with_name(path.name.partition(".index")[0].partition(".data-")[0]))
    raise InputError(f"{path}: no such file or folder")


def _in_folder(folder: Path) -> list[Path]:
    for name in STANDARD:
        if (folder / name).exists():
            return _listed(folder / name) if name.endswith(".json") else [folder / name]
    files = sorted(
        p
        for p in folder.iterdir()
        if p.suffix in (*PICKLES, ".npz", ".safetensors") and p.is_file()
    )
    if len(files) == 1:
        return files
    if files:
        names = ", ".join(p.name for p in files)
        raise InputError(
            f"{folder}: expected one checkpoint, found {names}; name the one to convert: "
            f"raypipe model convert {files[0]}"
        )
    checkpoints = sorted(folder.glob("*.index"))
    if checkpoints:
        raise _tensorflow(checkpoints[0].with_suffix(""))
    raise InputError(
        f"{folder}: expected model.safetensors, pytorch_model.bin or one .npz, .pt, .pth, .bin "
        "file, found none"
    )


def _listed(index: Path) -> list[Path]:
    """The files named in the index of a sharded checkpoint."""
    try:
        names = sorted(set(json.loads(index.read_bytes())["weight_map"].values()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{index}: expected a weight_map of file by tensor") from error
    wrong = [name for name in names if not isinstance(name, str) or Path(name).name != name]
    gone = [name for name in names if name not in wrong and not (index.parent / name).is_file()]
    if wrong or gone:
        raise InputError(
            [f"{index}: expected the name of a file beside it, found {name!r}" for name in wrong]
            + [f"{index}: {name} is missing" for name in gone]
        )
    return [index.parent / name for name in names]


def _tensorflow(prefix: Path) -> InputError:
    npz = str(prefix.with_name("model.npz"))
    error = InputError(
        f"{prefix}: a TensorFlow checkpoint, which raypipe does not read. Where TensorFlow is "
        "installed, make an .npz of it and convert that:"
    )
    for line in TENSORFLOW_RECIPE.format(prefix=str(prefix), npz=npz).splitlines():
        error.add_note(line)
    error.add_note(f"raypipe model convert {npz} --preset P --out DIR")
    return error


@dataclass(frozen=True, slots=True)
class SavedTensors:
    """Tensors as saved in files."""

    tensors: dict[str, Tensor]
    others: list[str]
    """Names of values that are not tensors and are left out."""
    files: list[dict[str, str]]
    """file, sha256 and format of each."""


def read_checkpoint(files: list[Path]) -> SavedTensors:
    """The tensors of one checkpoint's files.

    Raises:
        InputError: a pickle holds more than tensors (none of its code is run), a file is damaged,
            or two files have the same name of a tensor.
    """
    tensors: dict[str, Tensor] = {}
    others: list[str] = []
    records = []
    for file in files:
        sha256 = hash_file(file)
        part, beside, form = _read(file)
        again = sorted(set(part) & set(tensors))
        if again:
            raise InputError(f"{file}: {again[0]} and {len(again) - 1} more are in another file")
        tensors |= part
        others += beside
        records.append({"file": file.name, "sha256": sha256, "format": form})
    return SavedTensors(tensors, others, records)


def _read(file: Path) -> tuple[dict[str, Tensor], list[str], str]:
    with open(file, "rb") as stream:
        if stream.read(len(LFS_POINTER)) == LFS_POINTER:
            raise InputError(
                f"{file}: expected weights, found a git LFS pointer to them; run `git lfs pull` "
                "where the model was cloned"
            )
    if file.suffix == ".safetensors":
        return _read_safetensors(file), [], "safetensors"
    if file.suffix == ".npz":
        return _read_npz(file), [], "npz"
    tensors, others = _read_pickle(file)
    return tensors, others, "pickle"


def _read_safetensors(file: Path) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    try:
        return load_file(file)
    except SafetensorError as error:
        raise InputError(f"{file}: not a safetensors file: {error}") from error


def _read_npz(file: Path) -> dict[str, Tensor]:
    """The arrays of numbers; an array of objects would be a pickle and is refused."""
    import torch

    try:
        with np.load(file, allow_pickle=False) as archive:
            sizes = [member.file_size for member in archive.zip.infolist()]
            check_ratio(file, file.stat().st_size, sum(sizes))
            arrays = {name: np.asarray(archive[name]) for name in archive.files}
    except InputError:
        raise
    except Exception as error:  # of numpy, zipfile, zlib, a lack of memory: a file may bring any
        raise InputError(f"{file}: expected arrays of numbers by name: {error}") from error
    odd = sorted(name for name, array in arrays.items() if array.dtype.kind not in "fiub")
    if odd:
        raise InputError([f"{file}: {name}: expected an array of numbers" for name in odd])
    return {name: torch.from_numpy(np.ascontiguousarray(a)) for name, a in arrays.items()}


def _read_pickle(file: Path) -> tuple[dict[str, Tensor], list[str]]:
    """The tensors, read by a child process that accepts only tensors and plain values."""
    from safetensors.torch import load

    with tempfile.TemporaryDirectory(prefix="raypipe-convert-") as scratch:
        out = Path(scratch) / "tensors.safetensors"
        facts = _run_child(file, out)
        # Read, not mapped: the file is deleted with its folder.
        return load(out.read_bytes()), list(facts["others"])


def _run_child(file: Path, out: Path) -> dict[str, Any]:
    command = [sys.executable, "-I", str(CHILD), str(file.resolve()), str(out), str(CHILD_SECONDS)]
    # No variable may weaken weights_only; no pickle may reach a GPU.
    kept = {n: v for n, v in os.environ.items() if not n.startswith(("TORCH_", "PYTORCH_"))}
    try:
        done = subprocess.run(
            command,
            env={**kept, "CUDA_VISIBLE_DEVICES": ""},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=CHILD_SECONDS,
            cwd=out.parent,
        )
    except subprocess.TimeoutExpired as error:
        raise InputError(
            f"{file}: not read within {CHILD_SECONDS} seconds; the process was ended"
        ) from error
    if done.returncode != 0:
        raise _refusal(file, done.returncode, done.stderr)
    for line in done.stderr.splitlines():
        logger.warning("%s: %s", file.name, line)
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


def _refusal(file: Path, code: int, stderr: str) -> InputError:
    ended = f"by signal {-code}" if code < 0 else f"with {code}"
    error = InputError(
        f"{file}: refused: a pickle may hold tensors and plain values only, and is read with "
        f"weights_only=True; nothing of it was run. Save the model's state_dict() again, as "
        f"safetensors if you can. The process that read it ended {ended} and said:"
    )
    for line in stderr.strip().splitlines() or ["nothing"]:
        error.add_note(line)
    return error


@dataclass(frozen=True, slots=True)
class Renamed:
    """Tensors of one model, and what was changed."""

    tensors: dict[str, Tensor]
    """Tensors by the names under which transformers saves them, with or without a head."""
    num_labels: int | None
    segment_rows: int
    """Number of rows of the segment table."""
    renamed: dict[str, str]
    """Final name -> name in the checkpoint, if they differ."""
    transposed: list[str]
    left_out: list[str]
    segment_row: dict[str, Any] | None
    """The choice of the added segment row; None if none was added."""


def rename(
    tensors: Tensors, config: Config, conventions: AnyConventions, *, segment_row: str | None
) -> Renamed:
    """The model's tensors in a checkpoint, renamed.

    Args:
        tensors: by name as saved; TensorFlow's kernels are transposed.
        config: config.json, which names the family and its sizes.
        conventions: their kind decides whether a head is needed, and with how many units.
        segment_row: zero or copy: the third row if a duoBERT model's table has two.

    Raises:
        InputError: tensors are missing, have another shape or the same name, or the third segment
            row is not chosen; all problems together.
    """
    files = family_of(config).files
    table = files.SEGMENTS
    named = files.canonical_names(tensors)
    by_place = {place: _taken(source, tensors) for place, source in named.found.items()}
    pair = conventions if isinstance(conventions, PairConventions) else None
    problems = [f"two tensors have the same name: {both}" for both in named.twice]
    added = None
    if pair is not None and pair.kind == "duo" and table in by_place:
        choice, rows = segment_row or pair.segment_row, len(by_place[table])
        wrong = third_segment_problems(rows, choice)
        if choice not in (None, *SEGMENT_ROWS):
            wrong = [f"--segment-row: expected zero or copy, found {choice!r}"]
        if not wrong and rows == 2:
            by_place[table] = with_third_segment(by_place[table], choice)
            added = {"row": 2, "from": choice}
        problems += wrong
        config = {**config, "type_vocab_size": len(by_place[table])}
    elif segment_row is not None:
        problems.append(f"--segment-row: expected a duoBERT model, found {conventions.kind}")
    units = units_of(conventions)
    heads = heads_of(named.unused, config, conventions)
    problems += [f"two tensors have the same name: {both}" for both in heads.twice]
    problems += heads_problems(_shapes_of(heads, tensors), config, conventions)
    problems += tensor_problems({n: tuple(t.shape) for n, t in by_place.items()}, config, units)
    if predicts_words(conventions):
        plain = {name.removeprefix("module."): tensor for name, tensor in tensors.items()}
        untied = family_of(config).pretraining.untied(plain)
        problems += [f"{n}: expected the tensor that it is tied to, found another" for n in untied]
    if problems:
        raise InputError(problems)
    extra = files.HEADS if pair is None else ()
    kept = sorted(place for place in by_place if place not in extra)
    prefixed = not isinstance(conventions, Conventions) or conventions.is_sparse
    final = {place: files.saved_name(place, head=prefixed) for place in kept}
    final |= {place: place for place in heads.found}
    by_place |= {place: _taken(source, tensors) for place, source in heads.found.items()}
    sources = {**named.found, **heads.found}
    kept = [*kept, *heads.found]
    names = {place: source.name for place, source in sources.items()}
    return Renamed(
        tensors={final[place]: by_place[place].contiguous().clone() for place in kept},
        num_labels=units,
        segment_rows=len(by_place.get(table, ())),
        renamed={final[p]: names[p] for p in kept if final[p] != names[p]},
        transposed=[final[place] for place in kept if sources[place].transpose],
        left_out=sorted([*heads.unused, *(names[place] for place in extra if place in by_place)]),
        segment_row=added,
    )


def _taken(source: TensorSource, tensors: Tensors) -> Tensor:
    return tensors[source.name].T if source.transpose else tensors[source.name]


def _shapes_of(named: Named, tensors: Tensors) -> dict[str, tuple[int, ...]]:
    return {p: tuple(_taken(source, tensors).shape) for p, source in named.found.items()}


def units_of(conventions: AnyConventions) -> int | None:
    """Number of head units that the settings expect; None for an encoder."""
    if isinstance(conventions, PairConventions):
        return expected_units(conventions.relevant_label)
    return None


def tensor_problems(
    shapes: Mapping[str, tuple[int, ...]], config: Config, units: int | None
) -> list[str]:
    """Why tensors, by canonical name, do not fit this model; empty if they do.

    `units` is the number of head units that the settings expect; None means an encoder, which may
    or may not have pooler and head.
    """
    files = family_of(config).files
    expected = files.expected_shapes(config, num_labels=units)
    of_head = (*files.POOLER, *files.HEADS)
    problems = []
    for name in sorted(set(expected) - set(shapes)):
        head = name in of_head
        why = ": it has no head that scores pairs" if head else ""
        problems.append(f"the checkpoint lacks the tensor {name}{why}")
    for name, shape in sorted(shapes.items()):
        if name in expected and shape != expected[name]:
            problems.append(_misshapen(files, name, shape, expected[name], units))
        elif name not in expected and not files.may_have(name):
            problems.append(f"{name}: no such tensor in a model of the sizes in config.json")
    return problems


def _misshapen(
    files: Files, name: str, shape: tuple[int, ...], expected: tuple[int, ...], units: int | None
) -> str:
    if name == files.HEADS[0] and units is not None and shape[:1] != expected[:1]:
        wanted = "two units (relevant_label 0 or 1)" if units == 2 else "one (relevant_label null)"
        return f"{name}: the head has {shape[0]} units, the settings expect {wanted}"
    return f"{name}: expected shape {list(expected)} from config.json, found {list(shape)}"


def predicts_words(conventions: AnyConventions) -> bool:
    """Whether the model has the head for masked words: a pre-trained or a splade model."""
    if isinstance(conventions, Conventions):
        return conventions.pooling in OF_WORDS
    return isinstance(conventions, PretrainedConventions)


def heads_of(names: Collection[str], config: Config, conventions: AnyConventions) -> Named:
    """The tensors, among these of a checkpoint, of the heads that no reranker has."""
    if predicts_words(conventions):
        return family_of(config).pretraining.canonical_names(names)
    return Named({}, [*names], [])


def heads_problems(
    shapes: Mapping[str, tuple[int, ...]], config: Config, conventions: AnyConventions
) -> list[str]:
    """Why these heads of a checkpoint, by name, are not those of the model."""
    if predicts_words(conventions):
        return pretraining_problems(shapes, config)
    return []


def pretraining_problems(shapes: Mapping[str, tuple[int, ...]], config: Config) -> list[str]:
    """Why a checkpoint's heads, by name, are not those of this model's pre-training.

    The head for masked words must be there; pooler and classifier for next sentences may be.
    """
    heads = family_of(config).pretraining
    needed = heads.shapes(config, next_sentence=False)
    known = heads.shapes(config, next_sentence=True)
    missing = [
        f"the checkpoint lacks the tensor {name}: it has no head that predicts masked words; a "
        "pre-training with model.draw_missing: true draws it"
        for name in needed
        if name not in shapes
    ]
    held = {name: (name, shape) for name, shape in sorted(shapes.items())}
    return missing + shape_problems({name: known[name] for name in held if name in known}, held)
