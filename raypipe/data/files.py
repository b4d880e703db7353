"""The files to read from the files and folders that a user names, and their parsed lines."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from raypipe.data.records import Problems, lines
from raypipe.errors import InputError
from raypipe.storage.compression import COMPRESSED_SUFFIXES, open_binary

_ARCHIVES = re.compile(r"\.(tar(\.\w+)?|tgz|tbz2?|zip|7z)$", re.IGNORECASE)


def natural_key(path: Path) -> tuple[list[tuple[int, int, str]], str]:
    """Sort key: by file name, its digits as numbers (..._2 before ..._10), then by path."""
    parts = re.split(r"(\d+)", path.name)
    key = [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts if part]
    return key, path.as_posix()


def plain_name(path: Path) -> str:
    """The file's name without .gz, .bz2 or .zst."""
    return path.stem if path.suffix in COMPRESSED_SUFFIXES else path.name


def find_files(inputs: Sequence[Path], *, patterns: Sequence[str], expected: str) -> list[Path]:
    """The named files, and the files in the named folders, in natural file-name order.

    Args:
        inputs: files and folders. A file is read whatever its name.
        patterns: regular expressions for names in a folder, without .gz, .bz2, .zst. Only the first
            one that matches any file is used, so that a queries file is not read as passages.
        expected: what a folder should hold, for the message.

    Raises:
        InputError: no input, no such file, an archive, one file twice, or two files that differ
            only in their compression.
    """
    problems: list[str] = [] if inputs else [f"no input named: expected {expected}"]
    found: list[Path] = []
    for path in inputs:
        if path.is_dir():
            inside = _in_folder(path, patterns)
            found += inside
            if not inside:
                problems.append(
                    f"{path}: no file of this format in the folder: expected {expected}"
                )
        elif not path.exists():
            problems.append(f"{path}: no such file or folder: expected {expected}")
        elif _ARCHIVES.search(path.name):
            problems.append(f"{path}: an archive; unpack it and name the files in it")
        else:
            found.append(path)
    problems += _twice(found)
    if problems:
        raise InputError(problems)
    return sorted(found, key=natural_key)


def _in_folder(folder: Path, patterns: Sequence[str]) -> list[Path]:
    inside = [path for path in folder.iterdir() if path.is_file() and path.name[0] not in "._"]
    for pattern in patterns:
        if matching := [path for path in inside if re.fullmatch(pattern, plain_name(path))]:
            return matching
    return []


def _twice(found: Sequence[Path]) -> list[str]:
    """Problems for files given twice: they would make every passage a duplicate."""
    problems = []
    seen: dict[Path, Path] = {}
    for path in found:
        real = path.resolve()
        plain = real.with_name(plain_name(real))
        if plain in seen:
            problems.append(f"{path}: the same file as {seen[plain]}; name one of them")
        seen.setdefault(plain, path)
    return problems


Row = TypeVar("Row")


def parsed_lines(
    path: Path, parse: Callable[[bytes], Row], problems: Problems, *, skip: int = 0
) -> Iterator[tuple[int, Row]]:
    """Line number (from 1) and parsed row of each valid line; the others are added to `problems`.

    The first `skip` lines are left out.

    Raises:
        InputError: the file cannot be read.
    """
    with open_binary(path, wary=True) as stream:  # who reads them has them all in memory
        for number, line in enumerate(lines(stream, name=str(path), skip=skip), skip + 1):
            try:
                row = parse(line)
            except UnicodeError as error:
                problems.add(f"{path}: line {number:,}: not UTF-8 ({error})")
            except ValueError as error:
                problems.add(f"{path}: line {number:,}: {error}")
            else:
                yield number, row
