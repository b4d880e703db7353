"""Arrays in a safetensors file, mapped for reading: reading rows loads only their pages."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save, save_file

from raypipe.storage.payloads.writing import writing

DTYPES: dict[str, Any] = {
    "U8": np.uint8,
    "U16": np.uint16,
    "U32": np.uint32,
    "U64": np.uint64,
    "I32": np.int32,
    "I64": np.int64,
    "F32": np.float32,
}


def write_tensors(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write contiguous arrays by name as one safetensors file.

    Raises:
        OSError: it cannot be written, for example because the disk is full.
    """
    with writing(path):
        save_file(dict(arrays), path)


def tensor_bytes(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """The bytes that `write_tensors` would write."""
    return save(dict(arrays))


def map_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """Every tensor by name, read-only, in its own shape and dtype; an empty one is not mapped."""
    with path.open("rb") as stream:
        num_header = int.from_bytes(stream.read(8), "little")
        header = json.loads(stream.read(num_header))
    header.pop("__metadata__", None)
    arrays: dict[str, NDArray[Any]] = {}
    for name, entry in header.items():
        dtype, shape = DTYPES[entry["dtype"]], tuple(entry["shape"])
        offset = 8 + num_header + entry["data_offsets"][0]
        empty = 0 in shape
        arrays[name] = (
            np.empty(shape, dtype)
            if empty
            else np.memmap(path, dtype, "r", offset=offset, shape=shape)
        )
    return arrays
