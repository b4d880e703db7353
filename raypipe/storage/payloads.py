"""Payloads of shards: Parquet tables, fp16 vectors and word pieces, mapped for reading."""

import errno
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from raypipe.errors import CorruptError

_NUMBER = re.compile(r"\(os error (\d+)\)")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """While a library writes a file: a full disk is an error of storage, not a bug.

    Raises:
        OSError: with the system's number and the file's name. numpy does not tell the number after
            a short write: EIO then.
    """
    try:
        yield
    except SafetensorError as error:
        match = _NUMBER.search(str(error))
        if match is None:
            raise
        number = int(match[1])
        raise OSError(number, os.strerror(number), str(path)) from error
    except OSError as error:
        if error.errno is not None:
            error.filename = error.filename or str(path)
            raise
        reason = f"written in part ({error}); is the disk full?"
        raise OSError(errno.EIO, reason, str(path)) from error


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


ROW_GROUP_ROWS = 8192


def write_table(path: Path, schema: pa.Schema, batches: Iterable[pa.Table | pa.RecordBatch]) -> int:
    """The number of rows written, in row groups of 8,192; holds one group and one batch in memory.

    Equal rows give equal bytes, however they are divided into batches.
    """
    num_rows = 0
    options = {"compression": "zstd", "write_page_checksum": True, "store_schema": True}
    with writing(path), pq.ParquetWriter(path, schema, **options) as writer:
        for group in _groups(schema, batches):
            writer.write_table(group, row_group_size=ROW_GROUP_ROWS)
            num_rows += group.num_rows
    return num_rows


def read_table(
    path: Path,
    schema: pa.Schema,
    *,
    start: int = 0,
    stop: int | None = None,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """Rows [start, stop) of a payload, with all or some columns; reads only their row groups.

    Raises:
        CorruptError: the file's columns are not the schema's, or a page's checksum differs.
    """
    try:
        file = pq.ParquetFile(path, page_checksum_verification=True)
        _check_schema(path, file.schema_arrow, schema)
        total = file.metadata.num_rows
        stop = total if stop is None else min(stop, total)
        first, last = start // ROW_GROUP_ROWS, -(-stop // ROW_GROUP_ROWS)
        if start >= stop:
            return schema.empty_table()
        table = file.read_row_groups(list(range(first, last)), columns=columns)
    except (OSError, pa.ArrowInvalid) as error:
        raise CorruptError(f"{path.name}: not a readable Parquet payload: {error}") from error
    return table.slice(start - first * ROW_GROUP_ROWS, stop - start)


def _check_schema(path: Path, actual: pa.Schema, expected: pa.Schema) -> None:
    if not actual.equals(expected):
        raise CorruptError(f"{path.name}: expected columns {expected}, found {actual}")


def _groups(schema: pa.Schema, batches: Iterable[pa.Table | pa.RecordBatch]) -> Iterator[pa.Table]:
    tables: list[pa.Table] = []
    num_rows = 0
    for batch in batches:
        table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
        tables.append(table.cast(schema))
        num_rows += table.num_rows
        while num_rows >= ROW_GROUP_ROWS:
            merged = _merge(tables)
            yield merged.slice(0, ROW_GROUP_ROWS)
            tables = [merged.slice(ROW_GROUP_ROWS)]
            num_rows = tables[0].num_rows
    if num_rows:
        yield _merge(tables)


def _merge(tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables).combine_chunks()


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


def write_vectors(path: Path, vectors: NDArray[np.float16]) -> None:
    """Write the payload of one shard of embeddings."""
    assert vectors.dtype == np.float16 and vectors.ndim == 2
    with writing(path), path.open("wb") as stream:
        np.save(stream, np.ascontiguousarray(vectors), allow_pickle=False)


def read_vectors(path: Path) -> NDArray[np.float16]:
    """A read-only map of fp16 [rows, dim].

    Raises:
        CorruptError: the file does not hold such an array.
    """
    try:
        vectors = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise CorruptError(f"{path.name}: not a readable array: {error}") from error
    if vectors.dtype != np.float16 or vectors.ndim != 2:
        raise CorruptError(f"{path.name}: expected fp16 [rows, dim], found {vectors.dtype}")
    array: NDArray[np.float16] = vectors
    return array
