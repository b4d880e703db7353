"""The files to read from the files and folders that a user names, and their parsed lines."""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
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


def find_files(
    inputs: Sequence[Path], *, patterns: Sequence[str], expected: str, walk: bool = False
) -> list[Path]:
    """The named files, and the files in the named folders, in natural file-name order.

    Args:
        inputs: files and folders. A file is read whatever its name.
        patterns: regular expressions for names in a folder, without .gz, .bz2, .zst. Only the first
            one that matches any file is used, so that a queries file is not read as passages. Where
            a pattern takes any name, one such as queries.tsv or qrels.tsv is not read either.
        expected: what a folder should hold, for the message.
        walk: sub-folders are read too.

    Raises:
        InputError: no input, no such file, an archive, one file twice, two files that differ only
            in their compression, or files of the same kind in sub-folders that are not read.
    """
    problems: list[str] = [] if inputs else [f"no input named: expected {expected}"]
    files: list[Path] = []
    deeper: list[Path] = []
    for path in inputs:
        if path.is_dir():
            inside, below = _in_folder(path, patterns, walk)
            files += inside
            deeper += below
            if not inside:
                problems.append(
                    f"{path}: no file of this format in the folder: expected {expected}"
                    + _where(below)
                )
        elif not path.exists():
            problems.append(f"{path}: no such file or folder: expected {expected}")
        elif _ARCHIVES.search(path.name):
            problems.append(f"{path}: an archive; unpack it and name the files in it")
        else:
            files.append(path)
    for path in deeper[:1] if not problems and not {*deeper} <= {*files} else ():
        problems.append(
            f"{path}: in a sub-folder, which is not read; name the files and folders that are the "
            "collection, each of them"
        )
    problems += _twice(files)
    if problems:
        raise InputError(problems)
    return sorted(files, key=natural_key)


def _where(below: Sequence[Path]) -> str:
    """The folders in which such files are, for a message; empty if there are none."""
    folders = sorted({path.parent for path in below}, key=natural_key)
    if len(folders) > 1:
        return f"; {folders[0]} and {len(folders) - 1:,} more have some: name each of these folders"
    return f"; {folders[0]} has some: name that folder" if folders else ""


def _in_folder(folder: Path, patterns: Sequence[str], walk: bool) -> tuple[list[Path], list[Path]]:
    """The folder's files that are read, and those of its sub-folders that could be meant too."""
    below = sorted(_files_below(folder, set()))
    deeper: list[Path] = []
    for pattern in patterns:
        matching = [path for path in below if re.fullmatch(pattern, plain_name(path))]
        inside = [path for path in matching if walk or path.parent == folder]
        deeper += [
            path
            for path in ([] if walk else matching)
            if path.parent != folder and not any(map(ASIDE.match, path.relative_to(folder).parts))
        ]
        if inside and (walk or not pattern.startswith(".*")):
            return inside, []  # the name says which file it is
        if inside:
            return [path for path in inside if not ASIDE.match(path.name)] or inside, deeper
    return [], deeper


ASIDE = re.compile(r"(queries|qrels|topics|judge?ments)([._-]|$)", re.IGNORECASE)
"""Names of files and folders that stand beside a collection."""


def _files_below(folder: Path, seen: set[Path]) -> Iterator[Path]:
    """The files of the folder and its sub-folders, but for hidden ones and raypipe's own."""
    seen.add(folder.resolve())
    for path in folder.iterdir():
        if path.name[0] in "._":
            continue
        if path.is_file():
            yield path
        elif path.is_dir() and path.resolve() not in seen and not _is_work(path):
            yield from _files_below(path, seen)


def _is_work(folder: Path) -> bool:
    """Whether it is a workspace, or a root of stores."""
    return (folder / "workspace.json").exists() or (folder / "refs").is_dir()


def not_read(folder: Path, files: Collection[Path]) -> list[str]:
    """The names of what is in the folder and not among the files; `name/` is a whole sub-folder.

    Hidden files are not named, nor is what raypipe has written.
    """
    return _not_among(folder, {*files}, {parent for file in files for parent in file.parents})


def _not_among(folder: Path, files: set[Path], folders: set[Path]) -> list[str]:
    """As `not_read`; `folders` are those that the files are in, which may be very many."""
    names = []
    for path in sorted(folder.iterdir(), key=natural_key):
        if path.name.startswith(".") or path in files or (path.is_dir() and _is_work(path)):
            continue
        if path in folders:
            names += [f"{path.name}/{name}" for name in _not_among(path, files, folders)]
        else:
            names.append(f"{path.name}/" if path.is_dir() else path.name)
    return names


def _twice(files: Sequence[Path]) -> list[str]:
    """Problems for files given twice: they would make every passage a duplicate."""
    problems = []
    seen: dict[Path, Path] = {}
    for path in files:
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
        for number, line in enumerate(
            lines(stream, name=str(path), skip=skip, of_many=True), skip + 1
        ):
            try:
                row = parse(line)
            except UnicodeError as error:
                problems.add(f"{path}: line {number:,}: not UTF-8 ({error})")
            except ValueError as error:
                problems.add(f"{path}: line {number:,}: {error}")
            else:
                yield number, row
