"""Text run files as columns, in file order: TREC, MS MARCO and the four-column top1000."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe import foreign
from raypipe.errors import InputError
from raypipe.evaluation.run_files.columns import Codes, encode
from raypipe.evaluation.run_files.fields import (
    Block,
    Problems,
    numbers_of,
    quoted,
    split_tabs,
    split_words,
    texts_of,
)
from raypipe.evaluation.run_files.files import BLOCK_BYTES, line_blocks


class Lines(NamedTuple):
    """A run file's columns in file order; blank lines are left out."""

    queries: Codes
    passages: Codes
    rank: NDArray[np.float32] | None
    """NaN if a TREC rank is not a number; nothing depends on it then."""
    score: NDArray[np.float32] | None
    """float32, as in trec_eval; infinite if a score is too large."""
    number: NDArray[np.int64]
    """Line numbers, from 1."""


class Layout(NamedTuple):
    """The position of each column of a format, from 0; None if the format lacks the column."""

    num_columns: int
    query: int
    passage: int
    rank: int | None = None
    score: int | None = None


TEXT_FORMATS = {
    "trec": Layout(6, query=0, passage=2, rank=3, score=4),
    "msmarco": Layout(3, query=0, passage=1, rank=2),
    "top1000": Layout(4, query=0, passage=1),
}
"""`query Q0 passage rank score tag`; `query passage rank`; `query passage querytext text`."""
EXPECTED = "6 columns (TREC), 3 (MS MARCO), 4 with tabs (top1000) or Parquet"
"""What a run file may be."""


def read_lines(path: Path, form: str) -> Lines:
    """The file's columns.

    Args:
        path: plain or compressed.
        form: one of `TEXT_FORMATS`.

    Raises:
        InputError: lines with a wrong number of columns or an invalid number, the first ten in
            full; a file without lines; bytes that are not UTF-8.
    """
    problems = Problems(path)
    blocks = list(parsed_blocks(path, form, problems))
    problems.refuse()
    if not blocks:
        raise InputError(f"{path}: no lines; expected a run ({form})")
    return lines_of(blocks)


def lines_of(blocks: list[Block]) -> Lines:
    """The columns of these blocks, one after the other; the list is emptied to save memory."""
    columns = [list(column) for column in zip(*blocks, strict=True)]
    blocks.clear()
    queries = encode(pa.chunked_array(columns[0], pa.string()))
    columns[0].clear()
    passages = encode(pa.chunked_array(columns[1], pa.string()))
    columns[1].clear()
    rank, score = (None if c[0] is None else np.concatenate(c) for c in columns[2:4])
    return Lines(queries, passages, rank, score, np.concatenate(columns[4]))


def sniff(path: Path) -> str:
    """The text format of the file, from its first line that is not blank.

    Raises:
        InputError: none of `TEXT_FORMATS`; the message says so if the file holds qrels, CSV or
            JSON.
    """
    for block in line_blocks(path, block_bytes=1 << 16):
        line = next((line for line in block.split(b"\n") if line.strip()), None)
        if line is not None:
            return _format(path, line)
    raise InputError(f"{path}: no lines; expected a run")


def _format(path: Path, line: bytes) -> str:
    if line.lstrip().startswith(b"{"):
        raise InputError(
            f"{path}: expected {EXPECTED}; found JSON: write it as lines of `query Q0 passage rank "
            "score tag`, as ranx does with Run.from_file(PATH).save(OTHER, kind='trec')"
        )
    header = foreign.header_of(line, foreign.RUN, "query_id", "passage_id")
    if header is not None and header.separator != " ":
        if [name.strip().lower() for name in header.names] == ["query-id", "corpus-id", "score"]:
            raise InputError(f"{path}: these are qrels (BEIR's header); expected a run")
        raise InputError(
            f"{path}: expected {EXPECTED}; found a header of columns, {', '.join(header.names)}: "
            f"write it as Parquet, as pandas does with read_csv(PATH, dtype="
            f"{{{header.columns['query_id']!r}: str, {header.columns['passage_id']!r}: str}}, "
            f"sep={header.separator!r}).to_parquet(OTHER)"
        )
    words, tabbed = line.split(), line.rstrip(b"\r").split(b"\t")
    if len(words) == 4 and words[1] in (b"0", b"Q0") and words[3].lstrip(b"-").isdigit():
        raise InputError(f"{path}: these are qrels (query 0 passage relevance); expected a run")
    if len(tabbed) == 4:
        return "top1000"
    if len(words) in (3, 6):
        return "trec" if len(words) == 6 else "msmarco"
    raise InputError(f"{path}: expected {EXPECTED}; found {len(words)} in {quoted(line)}")


def parsed_blocks(path: Path, form: str, problems: Problems) -> Iterator[Block]:
    """Query ids, passage ids, ranks, scores and line numbers of the file, some lines at a time.

    A block with a problem is noted and left out.
    """
    layout, first = TEXT_FORMATS[form], 1
    split = split_tabs if form == "top1000" else split_words
    for block in line_blocks(path, block_bytes=BLOCK_BYTES):
        columns, numbers = split(block, layout.num_columns, first, problems)
        first += block.count(b"\n")
        if not len(numbers):
            continue
        rank = score = None
        if layout.rank is not None:
            # trec_eval ignores the rank of a TREC run, so an invalid one is not a problem.
            wanted = problems if layout.score is None else None
            rank = numbers_of(columns[layout.rank], numbers, wanted, "rank")
        if layout.score is not None:
            score = numbers_of(columns[layout.score], numbers, problems, "score")
        query_id = texts_of(columns[layout.query], numbers, problems)
        passage_id = texts_of(columns[layout.passage], numbers, problems)
        if not (query_id.null_count or passage_id.null_count):
            yield query_id, passage_id, rank, score, numbers
