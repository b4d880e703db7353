"""Finds the files of the checkpoint to convert."""

import json
from pathlib import Path

from raypipe.errors import InputError

PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
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
    found = sorted(
        p
        for p in folder.iterdir()
        if p.suffix in (*PICKLES, ".npz", ".safetensors") and p.is_file()
    )
    if len(found) == 1:
        return found
    if found:
        names = ", ".join(p.name for p in found)
        raise InputError(
            f"{folder}: expected one checkpoint, found {names}; name the one to convert: "
            f"raypipe model convert {found[0]}"
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
