"""A run as a board will read it: its lines in file order, without corrections."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe.evaluation.run_files.columns import Codes, encode
from raypipe.evaluation.run_files.files import line_blocks
from raypipe.evaluation.run_files.lines import read_lines, sniff
from raypipe.evaluation.run_files.parquet import is_parquet
from raypipe.evaluation.run_files.runs import read_run
from raypipe.vocabulary import BreakTies


@dataclass(frozen=True)
class RunLines:
    """Columns of a run."""

    path: Path
    form: str
    """The file's format, msmarco or trec; table for any other, which is read as a ranking."""
    queries: Codes
    passages: Codes
    rank: NDArray[np.float64]
    score: NDArray[np.float32] | None = None
    number: NDArray[np.int64] | None = None
    """Line numbers, if the file has lines."""
    separators: str = ""
    """For an msmarco file: "" if every line is query TAB passage TAB rank, otherwise the
    problem."""
    tags: tuple[str, ...] = ()
    """For a trec file: the first tags, at most three."""

    @property
    def query_ids(self) -> list[str]:
        """Query ids in order of first appearance."""
        return [str(name) for name in self.queries.names.to_pylist()]

    def rankings(self) -> Mapping[str, list[str]]:
        """Passage ids of each query by rank."""
        order = np.lexsort((self.rank, self.queries.codes))
        names = self.passages.names.take(pa.array(self.passages.codes[order])).to_pylist()
        return {query: names[start:stop] for query, start, stop in self._spans(order)}

    def scores(self) -> Mapping[str, list[float]]:
        """Float32 scores of each query by rank; 1, 1/2, 1/3, ... if the file has only ranks."""
        order = np.lexsort((self.rank, self.queries.codes))
        spans = list(self._spans(order))
        if self.score is None:
            return {query: [1 / n for n in range(1, stop - at + 1)] for query, at, stop in spans}
        found = self.score[order].tolist()
        return {query: found[start:stop] for query, start, stop in spans}

    def _spans(self, order: NDArray[np.int64]) -> Iterator[tuple[str, int, int]]:
        """(query, start, stop) of each query's lines, in an order that keeps them together."""
        codes = self.queries.codes[order]
        ids = self.query_ids
        edges = np.flatnonzero(np.diff(codes)) + 1
        bounds = [0, *edges.tolist(), len(codes)] if len(codes) else [0]
        for start, stop in zip(bounds[:-1], bounds[1:], strict=True):
            yield ids[codes[start]], start, stop


def read_run_lines(path: Path, *, break_ties: BreakTies = "id") -> RunLines:
    """The run of a file; of any form but TREC and MS MARCO it is a table.

    Raises:
        InputError: a file that is not a run.
    """
    form = "table" if is_parquet(path) else sniff(path)
    if form not in ("trec", "msmarco"):
        return of_table(read_run(path, break_ties=break_ties), path)
    lines = read_lines(path, form)
    assert lines.rank is not None
    separators, tags = _raw(path, form)
    rank = lines.rank.astype(np.float64)
    return RunLines(
        path, form, lines.queries, lines.passages, rank, lines.score, lines.number, separators, tags
    )


def of_table(run: pa.Table, path: Path) -> RunLines:
    """A run (schema.RUN_FILE) as lines."""
    rank, score = run["rank"].to_numpy().astype(np.float64), run["score"].to_numpy()
    return RunLines(path, "table", encode(run["query_id"]), encode(run["passage_id"]), rank, score)


def _raw(path: Path, form: str) -> tuple[str, tuple[str, ...]]:
    """What parsing ignores: separators of an msmarco file, tags of a trec file."""
    tags: dict[str, None] = {}
    first = 1
    for block in line_blocks(path):
        if form == "msmarco":
            for number, line in _wrong_lines(block, first):
                expected = "expected query TAB passage TAB rank, a whole number; found"
                return f"line {number}: {expected} {line[:60]!r}", ()
        elif len(tags) < 3:
            tags.update(_last_words(block))
        first += block.count(b"\n")
    return "", tuple(tags)[:3]


def _wrong_lines(block: bytes, first: int) -> Iterator[tuple[int, str]]:
    lines = block.count(b"\n") + (not block.endswith(b"\n"))
    good = len(_LINE.findall(block)) == lines
    for number, line in enumerate(() if good else block.rstrip(b"\n").split(b"\n"), first):
        if not _LINE.fullmatch(line):
            yield number, line.decode(errors="replace")


_LINE = re.compile(rb"^[^\t\n\r ]+\t[^\t\n\r ]+\t[0-9]+$", re.MULTILINE)


def _last_words(block: bytes) -> dict[str, None]:
    """The tags, in order of first appearance; each is decoded once."""
    found = dict.fromkeys(block.split()[5::6])
    return dict.fromkeys(word.decode(errors="replace") for word in found)
