"""A checkpoint of another program: its files, its tensors, and the names that raypipe reads.

Tensors are read from safetensors, a pickle or numpy's archive, checked against the settings, and
renamed to the names that transformers and raypipe read.
"""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError

from raypipe.errors import InputError
from raypipe.models.family import family_of, plain_names, unwrapped
from raypipe.models.folder.files import compare
from raypipe.models.folder.settings import (
    SEGMENT_ROWS,
    AnyConventions,
    Conventions,
    PairConventions,
    predicts_words,
)
from raypipe.models.tensors import (
    PICKLES,
    Config,
    third_segment_problems,
    with_third_segment,
)
from raypipe.regular import check_fetched, check_ratio
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
TENSORFLOW = re.compile(
    r"(?:bert|cls)/(?:\w+/)*(?:kernel|gamma|beta|bias|output_\w+|\w+_embeddings)"
    r"|output_(?:bias|weights)"
)
"""The variables of a BERT and its heads; others are an optimiser's."""
TENSORFLOW_PARTS = (
    (r"_embeddings$", r"\g<0>/weight"),
    (r"/layer_(\d+)/", r"/layer/\1/"),
    (r"^output_", "classifier/"),
    (r"/output_(\w+)$", r"/\1"),
    (r"/(?:kernel|gamma|weights)$", "/weight"),
    (r"/beta$", "/bias"),
)
"""TensorFlow's parts of names, and transformers', in order."""
CHILD = Path(__file__).with_name("child.py")
CHILD_SECONDS = 600
logger = logging.getLogger(__name__)


def find_checkpoint(path: Path) -> list[Path]:
    """The files of a checkpoint: the named file, or the only one in a folder.

    Raises:
        InputError: none, several, or a TensorFlow checkpoint (with the way to read it).
    """
    if path.is_dir():
        return _in_folder(path)
    if path.is_file() and path.suffix != ".index" and ".data-" not in path.name:
        return _listed(path) if path.name.endswith(".index.json") else [path]
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
    """By the names under which transformers saves them, or others."""
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
    return SavedTensors(named_as_torch(tensors), others, records)


def named_as_torch(tensors: Tensors) -> dict[str, Tensor]:
    """The tensors of a TensorFlow checkpoint under transformers' names, and others as `plain_names`
    has them; a kernel of TensorFlow is the transpose of a weight.

    A wrapper goes too where it is before some names alone, as beside the tensors of a loss.
    """
    named = {}
    for name, tensor in tensors.items():
        own = plain = name.removesuffix(":0")
        if not TENSORFLOW.fullmatch(own):
            named[name] = tensor
            continue
        for pattern, part in TENSORFLOW_PARTS:
            plain = re.sub(pattern, part, plain)
        named[plain.replace("/", ".")] = tensor.T if own.endswith("/kernel") else tensor
    counts = Counter(map(unwrapped, named))
    named = {n if counts[unwrapped(n)] > 1 else unwrapped(n): t for n, t in named.items()}
    plain_of = plain_names(named)
    return {plain_of[name]: tensor for name, tensor in named.items()}


def _read(file: Path) -> tuple[dict[str, Tensor], list[str], str]:
    check_fetched(file, "weights")
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
    segment_rows: int
    """Number of rows of the segment table."""
    left_out: list[str]
    segment_row: dict[str, Any] | None
    """The choice of the added segment row; None if none was added."""


def rename(
    tensors: Tensors, config: Config, conventions: AnyConventions, *, segment_row: str | None
) -> Renamed:
    """The model's tensors in a checkpoint, renamed.

    Args:
        tensors: by name.
        config: config.json, which names the family and its sizes.
        conventions: their kind decides whether a head is needed, and with how many units.
        segment_row: zero or copy: the third row if a duoBERT model's table has two.

    Raises:
        InputError: tensors are missing, have another shape or the same name, or the third segment
            row is not chosen; all problems together.
    """
    import torch

    files, table = family_of(config).files, family_of(config).files.SEGMENTS
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    compared = compare(shapes, config, conventions)
    names = compared.names
    by_place = {place: tensors[name] for place, name in names.items()}
    unused = sorted(tensors.keys() - names.values())
    pair = conventions if isinstance(conventions, PairConventions) else None
    problems = [
        f"two tensors have the same name: {names[place]} and {name}"
        for name in unused
        if (place := files.canonical(unwrapped(name))) in names
    ]
    problems += compared.problems
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
    elif segment_row is not None:
        problems.append(f"--segment-row: expected a duoBERT model, found {conventions.kind}")
    heads: Collection[str] = ()
    if predicts_words(conventions):
        heads = family_of(config).pretraining.shapes(config, next_sentence=True)
        problems += family_of(config).pretraining.untied(tensors)
    if problems:
        raise InputError(problems)
    extra = files.HEADS if pair is None else ()
    prefixed = not isinstance(conventions, Conventions) or conventions.is_sparse
    return Renamed(
        tensors={
            name if name in heads else files.saved_name(name, head=prefixed): tensor.clone(
                memory_format=torch.contiguous_format
            )
            for name, tensor in sorted(by_place.items())
            if name not in extra
        },
        segment_rows=len(by_place.get(table, ())),
        left_out=sorted([*unused, *(names[place] for place in extra if place in names)]),
        segment_row=added,
    )
