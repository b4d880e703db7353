"""Which form a run file has, decided by all of its lines, not by its first one."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe.errors import InputError
from raypipe.evaluation.run_files.columns import places
from raypipe.evaluation.run_files.lines import (
    TEXT_FORMATS,
    TREC_COLUMNS,
    LineProblems,
    line_blocks,
    quoted,
    split_words,
    texts_of,
    without_comments,
)
from raypipe.evaluation.run_files.tables import header_in, is_parquet
from raypipe.regular import is_array

EXPECTED = (
    "6 columns (TREC), 3 (MS MARCO or Tevatron), 4 (ColBERT or, with tabs, top1000), a first line "
    "that names the columns, or Parquet"
)
"""Forms of a run file, as messages list them."""


def form_of(path: Path, *, undecided: str | None = None) -> str:
    """parquet; table, a text whose first line names its columns; or one of `lines.TEXT_FORMATS`.

    Empty lines and comments count for nothing. Where a line fits two forms, the next ones decide.
    The third of three columns is a rank if each query has 1 to n, in any order. It is a score if it
    never rises within a query, or is no whole number somewhere.

    Args:
        path: see `read_run`.
        undecided: the form of three columns that the lines leave open, where something else tells
            it, such as a board's rules; they are refused without it.

    Raises:
        InputError: not a file, none of the forms, two of them to the last line, or a third column
            that may be a rank as well as a score, or neither; qrels and JSON are told as such.
    """
    if is_parquet(path):
        return "parquet"
    fitting: set[str] | None = None
    earlier = _Earlier()
    for line in _lines(path):
        if fitting is None:
            if _is_table(path, line):
                return "table"
            fitting = _forms_of_line(line) or {_by_columns(path, line)}
            remaining = fitting
        else:
            remaining = fitting & _forms_of_line(line)
        if len(remaining) > 1:
            remaining = remaining - earlier.excluded(line)
        if len(remaining) < 2:
            fitting = remaining or fitting  # a line that fits none is told where it is read
            break
        fitting = remaining
    else:
        if fitting is None:
            raise InputError(f"{path}: no lines; expected a run")
        if len(fitting) > 1 and "qrels" not in fitting:
            return earlier.trec_or_refused(path, fitting)
    if "qrels" in fitting:
        raise InputError(f"{path}: these are qrels (query 0 passage relevance); expected a run")
    form = next(each for each in ("trec", "three", *TEXT_FORMATS) if each in fitting)
    return _of_three(path, undecided) if form == "three" else form


def _lines(path: Path) -> Iterator[bytes]:
    """The lines that are neither empty nor comments."""
    for block in line_blocks(path, block_bytes=1 << 16):
        yield from (line for line in without_comments(block).split(b"\n") if line.strip())


def _is_table(path: Path, line: bytes) -> bool:
    if line.lstrip().startswith(b"{") or is_array(line.lstrip()):
        raise InputError(
            f"{path}: expected {EXPECTED}; found JSON: write it as lines of `query Q0 passage rank "
            "score tag`, as ranx does with Run.from_file(PATH).save(OTHER, kind='trec')"
        )
    return header_in(line) is not None


def _forms_of_line(line: bytes) -> set[str]:
    words, cells = line.split(), line.rstrip(b"\r").split(b"\t")
    forms = set()
    if len(words) == 3 and (len(cells) < 4 or _is_number(words[2])):
        forms.add("three")
    if len(words) >= TREC_COLUMNS and _is_number(words[4]):
        forms.add("trec")
    if len(words) == 4:
        if words[1] in _MARKS and words[3].lstrip(b"-").isdigit():
            forms.add("qrels")
        if _WHOLE.fullmatch(words[2]) and _is_number(words[3]):
            forms.add("colbert")
    if len(cells) >= 4 and all(len(cell.split()) == 1 for cell in cells[:2]):
        forms |= {"top1000"} if forms or not _is_cut(words) else set()
    return forms


def _is_cut(words: list[bytes]) -> bool:
    """Whether they are a TREC line's without its tag, or rank and tag: Q0 is no passage."""
    return len(words) in (4, 5) and words[1] in _MARKS and all(map(_is_number, words[3:]))


def _by_columns(path: Path, line: bytes) -> str:
    """The form whose reader says what is wrong with the line."""
    words = line.split()
    if len(words) >= TREC_COLUMNS and b"\t" not in line:
        return "trec"
    if line.count(b"\t") >= 3 and not _is_cut(words):
        return "trec" if line.count(b"\t") == TREC_COLUMNS - 1 else "top1000"
    remedy = ""
    if len(words) == 2:
        remedy = "; candidates without an order need a first line query_id TAB passage_id"
    elif len(words) == 1 and b"," in line:
        remedy = "; a file with commas needs a first line such as query_id,passage_id,score"
    elif len(words) == TREC_COLUMNS - 1:
        remedy = "; is the tag missing? trec_eval expects one too, such as `run` at each line's end"
    raise InputError(f"{path}: expected {EXPECTED}; found {len(words)} in {quoted(line)}{remedy}")


_MARKS = (b"0", b"Q0")
_WHOLE = re.compile(rb"[+-]?[0-9]+")


def _is_number(word: bytes) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return b"_" not in word


class _Earlier:
    """Earlier lines of a file, against which a later one is checked while several forms fit."""

    def __init__(self) -> None:
        """No line is read yet."""
        self._pairs: set[tuple[bytes, ...]] = set()
        self._ranks: set[tuple[bytes, ...]] = set()
        self._texts: dict[bytes, bytes] = {}
        self._marked = True

    def excluded(self, line: bytes) -> set[str]:
        """The forms in which this line contradicts an earlier one.

        No query has a passage or a rank twice, and a query of `top1000` has one text.
        """
        words, cells = line.split(), line.split(b"\t")
        self._marked &= words[1] in _MARKS
        excluded = set[str]()
        pair, ranked = tuple(words[:2]), (words[0], words[2])
        if pair in self._pairs:
            excluded |= {"colbert", "top1000"}
        if ranked in self._ranks:
            excluded.add("colbert")
        if len(cells) >= 4 and self._texts.setdefault(cells[0], cells[2]) != cells[2]:
            excluded.add("top1000")
        self._pairs.add(pair)
        self._ranks.add(ranked)
        return excluded

    def trec_or_refused(self, path: Path, fitting: set[str]) -> str:
        """The form of a file that fits several to its end: trec where every second column is Q0.

        Raises:
            InputError: another file, with both readings.
        """
        if "trec" in fitting and self._marked:
            return "trec"
        readings = {
            "three": "three columns",
            "trec": "TREC's query, Q0, passage, rank, score, tag (write blanks for its tabs)",
            "colbert": "ColBERT's query, passage, rank, score (put the line query_id TAB passage_id"
            " TAB rank TAB score in front)",
            "top1000": "top1000's query, passage and two texts (put the line query_id TAB "
            "passage_id TAB query TAB text in front)",
        }
        raise InputError(
            f"{path}: every line may be "
            f"{', or '.join(readings[each] for each in sorted(fitting))}; say which"
        )


def _of_three(path: Path, undecided: str | None) -> str:
    """The form of a file of three columns; msmarco where a line is not of it, which its reader
    then names."""
    problems, queries, values, first, whole = LineProblems(path), [], [], 1, True
    for block in line_blocks(path):
        columns, numbers = split_words(without_comments(block), 3, first, problems)
        first += block.count(b"\n")
        if not len(numbers) and not problems.count:
            continue
        own = _numbers(columns[2]) if columns else None
        ids = None if own is None else texts_of(columns[0], numbers, problems)
        if own is None or ids is None or problems.count:
            return "msmarco"
        whole &= own.dtype.kind == "i"
        queries.append(ids.dictionary_encode())
        values.append(own.astype(np.float64))
    chunks = pa.chunked_array(queries).unify_dictionaries().chunks
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in chunks])
    try:
        return third_column(codes, np.concatenate(values), whole=whole)
    except InputError as error:
        if undecided is not None:
            return undecided
        raise InputError(
            f"{path}: {error}; say which by a first line that names the columns: query_id TAB "
            "passage_id TAB rank, or query_id TAB passage_id TAB score"
        ) from None


def _numbers(words: list[bytes]) -> NDArray[np.int64] | NDArray[np.float64] | None:
    """The words as int64 if all are whole numbers, else as float64; None if one is no number."""
    try:
        whole: NDArray[np.int64] = pa.array(words, pa.string()).cast(pa.int64()).to_numpy()
        return whole
    except pa.ArrowInvalid:
        return np.array(list(map(float, words))) if all(map(_is_number, words)) else None


def third_column(codes: NDArray[np.int32], values: NDArray[np.float64], *, whole: bool) -> str:
    """msmarco, scored or unordered: what the third column of these lines is.

    Ranks in ascending order may have gaps, from a file that was cut to some passages. A column of
    -1 is ColBERT's, for passages without an order.

    Args:
        codes: of the lines' queries.
        values: of the third column.
        whole: whether each is written as a whole number, without a point.

    Raises:
        InputError: it may be a rank as well as a score with another result, or is neither.
    """
    if not np.isfinite(values).all() or (values != np.floor(values)).any():
        return "scored"
    if (values == -1).all():
        return "unordered"
    order = np.argsort(codes, kind="stable")
    same = np.diff(codes[order]) == 0
    steps = np.diff(values[order])[same]
    by_value = np.lexsort((values, codes))
    place = values[by_value] - places(codes[by_value])
    ranks = bool((place == 0).all() or (place == -1).all())
    falls = bool((steps <= 0).all() and (steps < 0).any())
    if not same.any():
        if (values == 1).all():  # which is rank 1 with the score 1/1
            return "msmarco"
        if (values < 0).any() or not whole:
            return "scored"
        raise InputError("each query has one line, whose third column may be its rank or its score")
    if ranks and falls and whole:
        raise InputError(
            "the third column is 1 to n in each query, as ranks are, and falls, as scores do"
        )
    if falls:
        return "scored"
    if ranks and not whole:
        raise InputError(
            "the third column is 1 to n in each query, as ranks are, with a point, as scores are"
        )
    if ranks or ((steps > 0).all() and values.min() in (0, 1) and whole):
        return "msmarco"
    raise InputError(
        "the third column is neither 1 to n in each query, as ranks are, nor does it fall there, "
        "as scores do"
    )
