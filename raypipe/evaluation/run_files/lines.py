"""Text run files without a header as columns, in file order: TREC, MS MARCO, ColBERT, top1000."""

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe.errors import InputError
from raypipe.evaluation.run_files.columns import SHOWN, Codes, encode
from raypipe.regular import check_returns, check_utf8_mark
from raypipe.storage.compression import open_binary

logger = logging.getLogger(__name__)
BLOCK_BYTES = 4 << 20
MAX_LINE_BYTES = 16 << 20
"""A longer line is no line of a run, also of one with texts."""


def line_blocks(path: Path, *, block_bytes: int = BLOCK_BYTES) -> Iterator[bytes]:
    """The file's decompressed content in blocks of whole lines, without a byte order mark.

    The first bytes, not the name, decide how the file is compressed. The last block may lack its
    final newline.

    Raises:
        InputError: the file is missing, truncated, UTF-16, or not in the format that its first
            bytes show; its lines end with returns alone; a line is longer than `MAX_LINE_BYTES`, or
            it unpacks to too much (`check_ratio`).
    """
    rest: list[bytes] = []
    num_rest = num_lines = 0
    first = True
    for chunk in chunks(path, block_bytes):
        if first:
            check_utf8_mark(path, chunk)
            chunk, first = chunk.removeprefix(b"\xef\xbb\xbf"), False
        head, newline, tail = chunk.rpartition(b"\n")
        if num_rest + (chunk.find(b"\n") if newline else len(chunk)) > MAX_LINE_BYTES:
            raise InputError(
                f"{path}: line {num_lines + 1:,}: expected at most {MAX_LINE_BYTES:,} bytes, found "
                "more; is this a run file, with one passage per line?"
            )
        if newline:
            yield b"".join([*rest, head, newline])
            num_lines += head.count(b"\n") + 1
            rest, num_rest = [tail], len(tail)
        else:
            rest.append(chunk)
            num_rest += len(chunk)
    if num_rest:
        if not num_lines:
            check_returns(path, b"".join(rest))
        yield b"".join(rest)


def chunks(path: Path, size: int) -> Iterator[bytes]:
    """Decompressed pieces of the file, none empty; the errors are those of `line_blocks`."""
    try:
        with open_binary(path, wary=True) as stream:
            while chunk := stream.read(size):
                yield chunk
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error}); expected a whole file") from error


Block = tuple[
    pa.Array, pa.Array, NDArray[np.float32] | None, NDArray[np.float32] | None, NDArray[np.int64]
]
"""Query ids, passage ids, ranks, scores and line numbers of a part of a file."""


class LineProblems:
    """The problems of a file: the first ten in full, the others counted."""

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
            more = self.count - len(self.shown)
            self.shown.append(f"{self.path}: {more} more lines like these")
        if self.shown:
            raise InputError(self.shown)


_COMMENT = re.compile(rb"^[ \t\r\x0b\x0c]*#[^\n]*", re.MULTILINE)

_RANKED_COMMENT = re.compile(
    rb"^[ \t]*(#\S+[ \t]+\S+[ \t]+\S+[ \t]+[0-9]+[ \t]+[-+.]*[0-9]\S*[ \t]+\S.*)", re.MULTILINE
)
"""A comment that may be a TREC line of a query like #1."""


def without_comments(block: bytes) -> bytes:
    """The block with an empty line in the place of each that begins with #, as in trec_eval 10."""
    return _COMMENT.sub(b"", block) if b"#" in block else block


_RETURN = re.compile(rb"\r(?=\S)")


def split_words(
    block: bytes, expected: int, first: int, problems: LineProblems
) -> tuple[list[list[bytes]], NDArray[np.int64]]:
    """The columns of a block whose lines have `expected` words or none, and their line numbers.

    Words behind the sixth column of a TREC line are left out, as in trec_eval. A return within a
    line is a problem, since readers in text mode end the line there.

    Counting words per line in numpy and splitting the block once takes 33 to 50 ms for 4 MiB;
    splitting line by line takes 90 to 107 (measured on one core).
    """
    if not block.endswith(b"\n"):
        block += b"\n"
    # Without the first test the search costs a quarter of all that this function does.
    if b"\r" in block and (inner := _RETURN.search(block)):
        place = inner.start()
        line = block[block.rfind(b"\n", 0, place) + 1 : block.index(b"\n", place)]
        problems.add(
            first + block.count(b"\n", 0, place),
            f"a return in the midst of the line, where some programs end it: {quoted(line)}; write "
            "each line with a line feed at its end",
        )
        return [], np.empty(0, dtype=np.int64)
    data = np.frombuffer(block, dtype=np.uint8)
    blank = _IS_SPACE[data]
    begins = ~blank
    begins[1:] &= blank[:-1]
    line_starts = np.concatenate([[0], np.flatnonzero(data == 10)[:-1] + 1])
    counts = np.add.reduceat(begins, line_starts, dtype=np.int64)
    longer = counts > expected if expected == TREC_COLUMNS else np.zeros(len(counts), np.bool_)
    wrong = np.flatnonzero((counts != expected) & (counts != 0) & ~longer)
    if len(wrong):
        lines = block.split(b"\n")
        for at in wrong:
            problems.add(first + int(at), _columns_problem(expected, int(counts[at]), lines[at]))
        return [], np.empty(0, dtype=np.int64)
    if longer.any():
        block = b"\n".join(
            b" ".join(line.split(None, expected)[:expected]) for line in block.split(b"\n")
        )
    words = block.split()
    return [words[column::expected] for column in range(expected)], np.flatnonzero(counts) + first


def _columns_problem(expected: int, count: int, line: bytes) -> str:
    remedy = ""
    if expected == TREC_COLUMNS and count == expected - 1:
        remedy = "; is the tag missing? trec_eval expects one too, such as `run` at each line's end"
    return f"expected {expected} columns; found {count} in {quoted(line)}{remedy}"


def split_tabs(
    block: bytes, expected: int, first: int, problems: LineProblems
) -> tuple[list[list[bytes]], NDArray[np.int64]]:
    """The first two columns of lines with tabs; texts may hold anything but tabs and newlines."""
    columns: list[list[bytes]] = [[], []]
    numbers = []
    for number, line in enumerate(block.split(b"\n"), start=first):
        row = line.split(b"\t", expected - 1)
        if len(row) == expected and row[0] and row[1]:
            columns[0].append(row[0])
            columns[1].append(row[1])
            numbers.append(number)
        elif line.strip():
            message = f"expected query, passage and two texts with tabs; found {quoted(line)}"
            problems.add(number, message)
    return columns, np.array(numbers, dtype=np.int64)


def texts_of(
    words: Sequence[bytes], numbers: NDArray[np.int64], problems: LineProblems
) -> pa.Array:
    """The words as strings."""
    try:
        return pa.array(words, pa.string())
    except pa.ArrowInvalid:
        for word, number in zip(words, numbers, strict=True):
            try:
                word.decode()
            except UnicodeDecodeError:
                problems.add(int(number), f"{quoted(word)} is not UTF-8")
        return pa.nulls(len(words), pa.string())


def numbers_of(
    words: Sequence[bytes],
    numbers: NDArray[np.int64],
    problems: LineProblems | None,
    name: str,
) -> NDArray[np.float32]:
    """The words as float32, by way of float64; any other word becomes NaN and a problem."""
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
                remedy = "; write a point, and no mark of thousands" if b"," in word else ""
                message = f"{name}: expected a number; found {quoted(word)}{remedy}"
                problems.add(int(numbers[at]), message)
    return narrowed(values)


def narrowed(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """The values rounded to float32, as in trec_eval; infinite if they are too large."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def quoted(content: bytes) -> str:
    """The start of the content, for a message."""
    text = content.decode(errors="replace")
    return repr(text if len(text) <= 80 else text[:77] + "...")


TREC_COLUMNS = 6
_IS_SPACE = np.isin(np.arange(256), list(b" \t\n\r\x0b\x0c"))


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


Split = Callable[[bytes, int, int, LineProblems], tuple[list[list[bytes]], NDArray[np.int64]]]
"""(block, columns of a line, its first line's number, problems) -> columns and line numbers."""


class TextFormat(NamedTuple):
    """The position of each column, from 0; None if the format lacks the column."""

    num_columns: int
    query: int
    passage: int
    rank: int | None = None
    score: int | None = None
    split: Split = split_words


TEXT_FORMATS = {
    "trec": TextFormat(TREC_COLUMNS, query=0, passage=2, rank=3, score=4),
    "msmarco": TextFormat(3, query=0, passage=1, rank=2),
    "scored": TextFormat(3, query=0, passage=1, score=2),
    "unordered": TextFormat(3, query=0, passage=1),
    "colbert": TextFormat(4, query=0, passage=1, rank=2, score=3),
    "top1000": TextFormat(4, query=0, passage=1, split=split_tabs),
}
"""`query Q0 passage rank score tag`; `query passage rank`; Tevatron's `query passage score`;
ColBERT's `query passage -1`, without an order; its `query passage rank score`; and `query passage
querytext text`. `forms.form_of` tells which of them a file is."""


def read_lines(path: Path, form: str) -> Lines:
    """The file's columns.

    Args:
        path: plain or compressed.
        form: one of `TEXT_FORMATS`.

    Raises:
        InputError: lines with a wrong number of columns or an invalid number, the first ten in
            full; a file without lines; bytes that are not UTF-8.
    """
    problems = LineProblems(path)
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


def parsed_blocks(path: Path, form: str, problems: LineProblems) -> Iterator[Block]:
    """Query ids, passage ids, ranks, scores and line numbers of the file, some lines at a time.

    A block with a problem is noted and left out. Comments that have the columns of a TREC line are
    logged.
    """
    layout, first = TEXT_FORMATS[form], 1
    hidden, num_hidden = b"", 0
    for block in line_blocks(path, block_bytes=BLOCK_BYTES):
        if b"\0" in block:
            _add_nul(block, first, problems)
        if form != "trec" and b"#" in block:
            _add_comments(block, layout, first, problems)
        content = without_comments(block)
        if form == "trec" and len(content) < len(block):
            found = _RANKED_COMMENT.findall(block)
            hidden, num_hidden = hidden or b"".join(found[:1]), num_hidden + len(found)
        columns, numbers = layout.split(content, layout.num_columns, first, problems)
        first += block.count(b"\n")
        if not len(numbers):
            continue
        rank = score = None
        if layout.rank is not None:
            # trec_eval ignores the rank of a TREC run, so an invalid one is not a problem.
            rank_problems = None if form == "trec" else problems
            rank = numbers_of(columns[layout.rank], numbers, rank_problems, "rank")
        if layout.score is not None:
            score = numbers_of(columns[layout.score], numbers, problems, "score")
        query_id = texts_of(columns[layout.query], numbers, problems)
        passage_id = texts_of(columns[layout.passage], numbers, problems)
        if not (query_id.null_count or passage_id.null_count):
            yield query_id, passage_id, rank, score, numbers
    if num_hidden:
        logger.warning(
            "%s: lines that begin with # are comments, as in trec_eval 10; ir_measures reads %d of "
            "them as a ranking (first: %s)",
            problems.path,
            num_hidden,
            quoted(hidden),
        )


def _add_nul(block: bytes, first: int, problems: LineProblems) -> None:
    """Note the first NUL, at which trec_eval stops without a word."""
    at = block.index(b"\0")
    number = first + block.count(b"\n", 0, at)
    line = block[block.rfind(b"\n", 0, at) + 1 :].partition(b"\n")[0]
    problems.add(number, f"a NUL character in {quoted(line)}; is this a text file?")


def _add_comments(block: bytes, layout: TextFormat, first: int, problems: LineProblems) -> None:
    """Note comments that have the tabs of a line of ranking: is # the first letter of an id?"""
    for comment in _COMMENT.finditer(block):
        if comment[0].count(b"\t") >= layout.num_columns - 1:
            problems.add(
                first + block.count(b"\n", 0, comment.start()),
                f"a line that begins with # is a comment, and {quoted(comment[0])} has the columns "
                "of a ranking; write the run in TREC's form without the #, or delete the line",
            )
