"""Reads runs in JSON: query id -> passage id -> score, as ranx and BEIR write them."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from raypipe.evaluation.run_files.fields import Block, Problems, narrowed
from raypipe.evaluation.run_files.files import BLOCK_BYTES, chunks
from raypipe.nested import Entries, nested_entries

BLOCK_ENTRIES = 100_000


def json_blocks(path: Path, problems: Problems) -> Iterator[Block]:
    """Query ids, passage ids, no ranks, scores and numbers of entries, some queries at a time.

    Raises:
        InputError: no such JSON; see `nested_entries`.
    """
    queries: list[str] = []
    entries: Entries = []
    first = 1
    for query, found in nested_entries(chunks(path, BLOCK_BYTES), str(path)):
        queries += [query] * len(found)
        entries += found
        if len(entries) >= BLOCK_ENTRIES:
            yield _block(queries, entries, first, problems)
            first += len(entries)
            queries, entries = [], []
    if entries:
        yield _block(queries, entries, first, problems)


def _block(queries: list[str], entries: Entries, first: int, problems: Problems) -> Block:
    passages, values = zip(*entries, strict=True)
    numbers = np.arange(first, first + len(entries))
    try:
        score = np.array([_number(value) for value in values])
    except (TypeError, OverflowError):
        score = np.full(len(values), np.nan)
        for at, value in enumerate(values):
            try:
                score[at] = _number(value)
            except (TypeError, OverflowError):
                told = repr(value)[:80]
                problems.add(int(numbers[at]), f"score: expected a number; found {told}")
    return _texts(queries), _texts(passages), None, narrowed(score), numbers


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return float(value)


def _texts(values: object) -> pa.Array:
    return pa.array(values, pa.string())
