"""Parsed lines of a small side file (queries, qrels, candidates); collects every problem."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from raypipe.data.files.problems import Problems
from raypipe.data.files.records import lines
from raypipe.storage.compression import open_binary

Row = TypeVar("Row")


def parsed_lines(
    path: Path, parse: Callable[[bytes], Row], problems: Problems
) -> Iterator[tuple[int, Row]]:
    """Line number (from 1) and parsed row of each valid line; the others are added to `problems`.

    Raises:
        InputError: the file cannot be read.
    """
    with open_binary(path) as stream:
        for number, line in enumerate(lines(stream, name=str(path)), 1):
            try:
                row = parse(line)
            except UnicodeError as error:
                problems.add(f"{path}: line {number:,}: not UTF-8 ({error})")
            except ValueError as error:
                problems.add(f"{path}: line {number:,}: {error}")
            else:
                yield number, row
