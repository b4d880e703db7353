"""Parquet collections: an id, a text and perhaps a title, under any name of the field."""

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from raypipe import foreign
from raypipe.data.columns import as_text, is_parquet, parquet_columns
from raypipe.data.files.inputs import find_files
from raypipe.data.files.records import chunks
from raypipe.data.files.split import Counted, Split
from raypipe.data.formats.fields import checked_id, titled
from raypipe.errors import InputError
from raypipe.regular import reading_parquet

Record = tuple[str, str, str]
"""Id, title and text."""
BATCH_ROWS = 1024


def files(inputs: Sequence[Path]) -> list[Path]:
    """Each file named, and the *.parquet of each folder; their columns are read.

    Raises:
        InputError: no file, or a file that is not Parquet or lacks a column.
    """
    found = find_files(inputs, patterns=[r".*\.parquet"], expected="*.parquet")
    problems = []
    for path in found:
        try:
            if not is_parquet(path):
                raise InputError(f"{path}: expected Parquet, found another content")
            parquet_columns(path, foreign.PASSAGES, "passage_id", "text")
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    return found


def parse(record: Record) -> tuple[str, str]:
    """The id and the text, behind the title and a blank if there is a title.

    Raises:
        ValueError: a bad id.
    """
    passage_id, title, text = record
    return checked_id(passage_id), titled(title, text)


def _count(stream: BinaryIO, name: str, every: int) -> Counted:
    """The rows, and the file's bytes in as many equal parts as there are stretches of rows.

    A row's bytes lie in several places. A changed file is found when the shard is read whose part
    has changed.
    """
    with reading_parquet(name), pq.ParquetFile(name) as file:
        num_rows = file.metadata.num_rows
    num_parts = -(-num_rows // every)
    if not num_parts:
        for _ in chunks(stream):
            pass
        return Counted(0, (), ())
    num_bytes = Path(name).stat().st_size
    bounds = [num_bytes * part // num_parts for part in range(num_parts + 1)]
    hashes = [hashlib.sha256() for _ in range(num_parts)]
    at = part = 0
    for block in chunks(stream):
        while block:
            taken = block[: bounds[part + 1] - at]
            hashes[part].update(taken)
            at, block = at + len(taken), block[len(taken) :]
            if at == bounds[part + 1] and part + 1 < num_parts:
                part += 1
    return Counted(num_rows, tuple(bounds[:-1]), tuple(each.hexdigest() for each in hashes))


def _records(stream: BinaryIO, *, name: str, at: int, first: int, skip: int) -> Iterator[Record]:
    """Rows from `first` + `skip` on; the row groups before are not read."""
    path, start = Path(name), first + skip
    columns = parquet_columns(path, foreign.PASSAGES, "passage_id", "text")
    with reading_parquet(path), pq.ParquetFile(path, page_checksum_verification=True) as file:
        num_groups = file.num_row_groups
        sizes = [file.metadata.row_group(group).num_rows for group in range(num_groups)]
        ends = list(accumulate(sizes))
        first_group = bisect_right(ends, start)
        begins = ends[first_group - 1] if first_group else 0
        groups, wanted = range(first_group, num_groups), list(columns.values())
        for batch in file.iter_batches(BATCH_ROWS, row_groups=list(groups), columns=wanted):
            batch.validate(full=True)
            if begins + len(batch) > start:
                yield from _rows(path, batch.slice(max(0, start - begins)), columns, begins)
            begins += len(batch)


def _rows(
    path: Path, batch: pa.RecordBatch, columns: dict[str, str], begins: int
) -> Iterator[Record]:
    found = []
    for own in ("passage_id", "title", "text"):
        if own not in columns:
            found.append([""] * len(batch))
            continue
        column = as_text(path, columns[own], batch[columns[own]])
        if own != "title" and column.null_count:
            raise InputError(
                f"{path}: column {columns[own]}: {column.null_count} of the rows from "
                f"{begins + 1:,} on are null; expected texts"
            )
        found.append([value or "" for value in column.to_pylist()])
    yield from zip(*found, strict=True)


def _place(number: int, record: Record) -> str:
    return f"row {number:,}"


def _same(record: Record) -> Record:
    return record  # Parquet's texts are UTF-8


ROWS = Split(place=_place, count=_count, records=_records, replaced=_same)
"""Rows of a Parquet file."""
