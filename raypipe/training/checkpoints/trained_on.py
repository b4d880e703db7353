"""Hashes of the passages that a model was trained on, so that anyone can check for leaks."""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from raypipe.text.inputs import TextSlice
from raypipe.training.examples.table import distinct
from raypipe.training.steps.batch import ExampleSource

UInt64 = NDArray[np.uint64]
FILE = "trained_on.npy"
ROWS_AT_ONCE = 50_000


def trained_on(sources: Sequence[ExampleSource]) -> UInt64:
    """One hash for each distinct passage in the examples, relevant or not, sorted."""
    found = []
    for source in sources:
        rows = distinct(source.examples.passage_rows.reshape(-1))
        for start in range(0, len(rows), ROWS_AT_ONCE):
            found.append(passage_hashes(source.passages.part(rows[start : start + ROWS_AT_ONCE])))
    return np.unique(np.concatenate(found))


def passage_hashes(part: TextSlice) -> UInt64:
    """The first 8 bytes of each text's BLAKE2b over its word pieces as uint32, little-endian.

    Word pieces are hashed so that case and spacing matter only if they matter to the tokenizer.
    """
    flat = part.flat.astype("<u4")
    spans = zip(part.starts.tolist(), (part.starts + part.counts).tolist(), strict=True)
    digests = b"".join(
        hashlib.blake2b(flat[start:stop].tobytes(), digest_size=8).digest() for start, stop in spans
    )
    return np.frombuffer(digests, "<u8").astype(np.uint64)
