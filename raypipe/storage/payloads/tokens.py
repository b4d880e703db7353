"""Token payloads: a flat array of word pieces and an array of offsets, both mapped for reading."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from raypipe.storage.payloads.mapped import map_tensors, write_tensors

Flat = NDArray[np.uint16 | np.uint32]
Offsets = NDArray[np.int64]


def write_tokens(path: Path, flat: Flat, offsets: Offsets) -> None:
    """Write safetensors: `pieces` uint16 or uint32 [num_pieces], `offsets` int64 [rows + 1]."""
    assert offsets[0] == 0 and offsets[-1] == len(flat)
    write_tensors(path, {"pieces": np.ascontiguousarray(flat), "offsets": offsets})


def read_tokens(path: Path) -> tuple[Flat, Offsets]:
    """The arrays given to `write_tokens`; row i is `flat[offsets[i]:offsets[i + 1]]`."""
    tensors = load_file(path)
    flat: Flat = tensors["pieces"]
    return flat, tensors["offsets"]


def map_tokens(path: Path) -> tuple[Flat, Offsets]:
    """Like `read_tokens`, but mapped: reading scattered rows loads only their pages."""
    tensors = map_tensors(path)
    return tensors["pieces"], tensors["offsets"]


def taken(flat: Flat, offsets: Offsets, rows: NDArray[np.int64]) -> tuple[Flat, Offsets]:
    """The pieces of some rows, in the order given."""
    counts = np.asarray(offsets[rows + 1] - offsets[rows])
    ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    source = np.arange(ends[-1]) + np.repeat(offsets[rows] - ends[:-1], counts)
    return np.asarray(flat[source]), ends


def concatenate(parts: list[tuple[Flat, Offsets]]) -> tuple[Flat, Offsets]:
    """Several groups of rows as one, in order; of no group, no row."""
    if not parts:
        return np.empty(0, np.uint16), np.zeros(1, np.int64)
    flats = [flat for flat, _ in parts]
    lengths = np.concatenate([np.diff(offsets) for _, offsets in parts])
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return np.concatenate(flats), offsets
