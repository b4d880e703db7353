"""Reads a run file in parts of whole queries, so that little of it is in memory at a time."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from raypipe.errors import InputError
from raypipe.evaluation.run_files.fields import Block, Problems
from raypipe.evaluation.run_files.lines import lines_of, parsed_blocks, sniff
from raypipe.evaluation.run_files.parquet import is_parquet
from raypipe.evaluation.run_files.refusals import warn
from raypipe.evaluation.run_files.runs import ordered
from raypipe.vocabulary import BreakTies

PART_LINES = 100_000
"""Lines of a part at least, but for the last; they and their block take about 200 MB."""


class NotInPartsError(Exception):
    """The file must be read whole: with `runs.read_run`, which also says what is wrong with it."""


def read_parts(
    path: Path, *, num_lines: int = PART_LINES, break_ties: BreakTies = "id"
) -> Iterator[pa.Table]:
    """The parts of the run, `schema.RUN_FILE`, one after the other; together they are `read_run`'s.

    Args:
        path: a text file, plain or compressed.
        num_lines: lines of a part at least, but for the last; a query stays in one part.
        break_ties: see `runs.read_run`.

    Raises:
        NotInPartsError: a Parquet file, a query whose lines stand far apart, or lines that are not
            a run. What was read before counts for nothing.
    """
    if is_parquet(path):
        raise NotInPartsError
    try:
        yield from _parts(path, num_lines, break_ties)
    except InputError as error:
        raise NotInPartsError from error


def _parts(path: Path, num_lines: int, break_ties: BreakTies) -> Iterator[pa.Table]:
    form = sniff(path)
    problems = Problems(path)
    finished: set[str] = set()
    contradicted: list[str] = []
    for blocks in _of_whole_queries(parsed_blocks(path, form, problems), num_lines):
        problems.refuse()
        lines = lines_of(blocks)
        names = lines.queries.names.to_pylist()
        if not finished.isdisjoint(names):
            raise NotInPartsError
        finished.update(names)
        table, queries = ordered(path, lines, form, break_ties)
        contradicted += queries
        yield table
    problems.refuse()
    if not finished:
        raise NotInPartsError
    warn(path, form, contradicted, break_ties)


def _of_whole_queries(blocks: Iterator[Block], num_lines: int) -> Iterator[list[Block]]:
    """The blocks in groups that end where a query ends."""
    held: list[Block] = []
    count = 0
    for block in blocks:
        queries = block[0]
        before = np.flatnonzero(~np.asarray(pc.equal(queries, queries[-1])))
        cut = int(before[-1]) + 1 if len(before) else 0  # from here on all are of the last query
        ends = bool(cut) or (bool(held) and held[-1][0][-1] != queries[0])
        if ends and count + cut >= num_lines:
            yield [*held, _rows(block, 0, cut)] if cut else held
            held, count = [], 0
            block = _rows(block, cut, len(queries))
        held.append(block)
        count += len(block[0])
    if held:
        yield held


def _rows(block: Block, start: int, stop: int) -> Block:
    queries, passages, rank, score, number = block
    return (
        queries[start:stop],
        passages[start:stop],
        None if rank is None else rank[start:stop],
        None if score is None else score[start:stop],
        number[start:stop],
    )
