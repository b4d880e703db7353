"""Text run files as columns, in file order: TREC, MS MARCO and the four-column top1000."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe.errors import InputError
from raypipe.evaluation.columns import SHOWN, Codes, encode
from raypipe.evaluation.files import line_blocks


class Lines(NamedTuple):
    """A run file's columns in file order; blank lines are left out."""

    queries: Codes
    passages: Codes
    rank: NDArray[np.float32] | None
    """NaN where a TREC rank is not a number: nothing depends on it there."""
    score: NDArray[np.float32] | None
    """As trec_eval holds it; infinite where float32 is too narrow."""
    number: NDArray[np.int64]
    """Line numbers, from 1."""


class Layout(NamedTuple):
    """Which column of a format is what, from 0; None where the format has none."""

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


class Problems:
    """What is wrong with a file: the first ten in words, the others counted."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.shown: list[str] = []
        self.count = 0

    def add(self, line: int, message: str) -> None:
        """Note one problem of one line."""
        self.count += 1
        if len(self.shown) < SHOWN:
            self.shown.append(f"{self.path}: line {line}: {message}")

    def refuse(self) -> None:
        """Raise InputError if anything was noted."""
        if self.count > len(self.shown):
            self.shown.append(f"{self.path}: {self.count - len(self.shown)} more lines like these")
        if self.shown:
            raise InputError(self.shown)


def read_lines(path: Path, form: str) -> Lines:
    """The file's columns.

    Args:
        path: plain or compressed.
        form: one of `TEXT_FORMATS`.

    Raises:
        InputError: lines with a wrong number of columns or a number that is none, the first ten
            in words; a file without lines; bytes that are not UTF-8.
    """
    problems = Problems(path)
    blocks = list(_blocks(path, form, problems))
    problems.refuse()
    if not blocks:
        raise InputError(f"{path}: no lines; expected a run ({form})")
    columns = [list(column) for column in zip(*blocks, strict=True)]
    del blocks
    queries = encode(pa.chunked_array(columns[0], pa.string()))
    columns[0].clear()
    passages = encode(pa.chunked_array(columns[1], pa.string()))
    columns[1].clear()
    rank, score = (None if c[0] is None else np.concatenate(c) for c in columns[2:4])
    return Lines(queries, passages, rank, score, np.concatenate(columns[4]))


def sniff(path: Path) -> str:
    """The text format of the file, told by its first line that is not blank.

    Raises:
        InputError: none of `TEXT_FORMATS`; qrels are named as such.
    """
    for block in line_blocks(path, block_bytes=1 << 16):
        line = next((line for line in block.split(b"\n") if line.strip()), None)
        if line is not None:
            return _format(path, line)
    raise InputError(f"{path}: no lines; expected a run")


def _format(path: Path, line: bytes) -> str:
    words, tabbed = line.split(), line.rstrip(b"\r").split(b"\t")
    if len(words) == 4 and words[1] in (b"0", b"Q0") and words[3].lstrip(b"-").isdigit():
        raise InputError(f"{path}: these are qrels (query 0 passage relevance); expected a run")
    if len(tabbed) == 4:
        return "top1000"
    if len(words) in (3, 6):
        return "trec" if len(words) == 6 else "msmarco"
    raise InputError(
        f"{path}: expected 6 columns (TREC), 3 (MS MARCO) or 4 with tabs (top1000); "
        f"found {len(words)} in {_quoted(line)}"
    )


Block = tuple[
    pa.Array, pa.Array, NDArray[np.float32] | None, NDArray[np.float32] | None, NDArray[np.int64]
]


def _blocks(path: Path, form: str, problems: Problems) -> Iterator[Block]:
    """Parsed blocks of the file; a block with a problem is noted and left out."""
    layout, first = TEXT_FORMATS[form], 1
    split = _tabbed if form == "top1000" else _words
    for block in line_blocks(path):
        columns, numbers = split(block, layout.num_columns, first, problems)
        first += block.count(b"\n")
        if not len(numbers):
            continue
        rank = score = None
        if layout.rank is not None:
            # trec_eval ignores the rank of a TREC run, so a bad one there is no problem.
            wanted = problems if layout.score is None else None
            rank = _numbers(columns[layout.rank], numbers, wanted, "rank")
        if layout.score is not None:
            score = _numbers(columns[layout.score], numbers, problems, "score")
        query_id = _text(columns[layout.query], numbers, problems)
        passage_id = _text(columns[layout.passage], numbers, problems)
        yield query_id, passage_id, rank, score, numbers


def _words(
    block: bytes, expected: int, first: int, problems: Problems
) -> tuple[list[list[bytes]], NDArray[np.int64]]:
    """The columns of a block whose lines have `expected` words or none, and their line numbers.

    Counting words a line in numpy and splitting the block once is a third of the time of
    splitting line by line, and memory holds one block's words.
    """
    if not block.endswith(b"\n"):
        block += b"\n"
    data = np.frombuffer(block, dtype=np.uint8)
    blank = _IS_SPACE[data]
    begins = ~blank
    begins[1:] &= blank[:-1]
    line_starts = np.concatenate([[0], np.flatnonzero(data == 10)[:-1] + 1])
    counts = np.add.reduceat(begins, line_starts, dtype=np.int64)
    wrong = np.flatnonzero((counts != expected) & (counts != 0))
    if len(wrong):
        lines = block.split(b"\n")
        for at in wrong:
            problems.add(
                first + int(at),
                f"expected {expected} columns; found {counts[at]} in {_quoted(lines[at])}",
            )
        return [], np.empty(0, dtype=np.int64)
    words = block.split()
    return [words[column::expected] for column in range(expected)], np.flatnonzero(counts) + first


def _tabbed(
    block: bytes, expected: int, first: int, problems: Problems
) -> tuple[list[list[bytes]], NDArray[np.int64]]:
    """The first two columns of lines with tabs; texts hold anything but tabs and newlines."""
    columns: list[list[bytes]] = [[], []]
    numbers = []
    for number, line in enumerate(block.split(b"\n"), start=first):
        row = line.split(b"\t", expected - 1)
        if len(row) == expected and row[0] and row[1]:
            columns[0].append(row[0])
            columns[1].append(row[1])
            numbers.append(number)
        elif line.strip():
            message = f"expected query, passage and two texts with tabs; found {_quoted(line)}"
            problems.add(number, message)
    return columns, np.array(numbers, dtype=np.int64)


def _text(words: Sequence[bytes], numbers: NDArray[np.int64], problems: Problems) -> pa.Array:
    """The words as strings."""
    try:
        return pa.array(words, pa.string())
    except pa.ArrowInvalid:
        for word, number in zip(words, numbers, strict=True):
            try:
                word.decode()
            except UnicodeDecodeError:
                problems.add(int(number), f"{_quoted(word)} is not UTF-8")
        return pa.nulls(len(words), pa.string())


def _numbers(
    words: Sequence[bytes],
    numbers: NDArray[np.int64],
    problems: Problems | None,
    name: str,
) -> NDArray[np.float32]:
    """The words as float32, by way of float64; one that is no number becomes NaN and a problem."""
    try:
        return narrowed(pa.array(words, pa.string()).cast(pa.float64()).to_numpy())
    except pa.ArrowInvalid:
        pass
    values = np.full(len(words), np.nan)
    for at, word in enumerate(words):
        try:
            if b"_" in word:
                raise ValueError
            values[at] = float(word)
        except ValueError:
            if problems is not None:
                problems.add(int(numbers[at]), f"{name}: expected a number; found {_quoted(word)}")
    return narrowed(values)


def narrowed(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """The values rounded to float32, as trec_eval does; infinite where they are too large."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def _quoted(content: bytes) -> str:
    text = content.decode(errors="replace")
    return repr(text if len(text) <= 80 else text[:77] + "...")


_IS_SPACE = np.isin(np.arange(256), list(b" \t\n\r\x0b\x0c"))
