"""Refuses what is no file, no folder or no UTF-8, or has no end: devices, decompression bombs."""

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

from raypipe.errors import InputError, RaypipeError

_KINDS = {
    stat.S_IFDIR: ("a folder", "name the file in it"),
    stat.S_IFIFO: ("a pipe", "write its content to a file, which is read more than once"),
    stat.S_IFCHR: ("a device", "name a file"),
    stat.S_IFBLK: ("a device", "name a file"),
    stat.S_IFSOCK: ("a socket", "name a file"),
}

LFS_POINTER = b"version https://git-lfs.github.com"
MAX_RATIO = 200
"""Most unpacked bytes for a packed one; gzip packs texts and runs to a third to a twentieth."""
MIN_UNPACKED_BYTES = 64 << 20
"""Up to this size any ratio is allowed."""


def check_regular(path: Path | str, expected: str = "a file") -> None:
    """Returns nothing if the path names a regular file or nothing at all.

    Raises:
        InputError: a folder, a pipe, a device or a socket, or links without an end.
    """
    try:
        kind = stat.S_IFMT(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise InputError(
            f"{path}: expected {expected}, found links in a circle; let it name a file"
        ) from None
    if kind in _KINDS:
        found, remedy = _KINDS[kind]
        raise InputError(f"{path}: expected {expected}, found {found}; {remedy}")


def check_fetched(path: Path, expected: str) -> None:
    """Returns nothing if a file is none, or has its own content.

    Raises:
        InputError: it is a pointer of Git LFS, as a clone without that program has it.
    """
    check_regular(path, expected)
    try:
        with path.open("rb") as file:
            head = file.read(len(LFS_POINTER))
    except FileNotFoundError:
        return
    if head == LFS_POINTER:
        raise InputError(
            f"{path}: expected {expected}, found a git LFS pointer to it; run `git lfs pull` where "
            "the model was cloned"
        )


def check_folder(path: Path, named: str = "") -> None:
    """Returns nothing if the path is a folder, or can become one.

    Args:
        path: where files are to be written.
        named: the option or key that names it, for the message.

    Raises:
        InputError: a file, or a link to nothing, is in its place or above it.
    """
    standing = next(each for each in (path, *path.absolute().parents) if os.path.lexists(each))
    if not standing.is_dir():
        raise InputError(
            f"{named}{path}: expected a folder, found the file {standing}; name another"
        )


def check_utf8_mark(path: Path | str, head: bytes) -> None:
    """Returns nothing if a text that begins with these bytes may be UTF-8.

    Raises:
        InputError: it has a byte order mark of UTF-16, as what Windows' PowerShell writes, or of
            UTF-32.
    """
    if head.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")):
        is_wide = head.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff"))
        form = "UTF-32" if is_wide else "UTF-16"
        raise InputError(
            f"{path}: expected UTF-8, found {form}; convert it: iconv -f {form} -t UTF-8 FILE"
        )


def is_array(first: bytes) -> bool:
    """Whether the first line with content, without blanks before it, begins an array of objects."""
    return first.startswith(b"[") and first[1:].lstrip()[:1] in (b"", b"{")


def check_no_array(path: Path | str, first: bytes) -> None:
    """Returns nothing if a file whose first line with content is this one is no array of objects.

    Raises:
        InputError: it is.
    """
    if is_array(first):
        raise InputError(
            f"{path}: expected an object in each line, found a JSON array; pandas writes lines "
            "with to_json(PATH, orient='records', lines=True)"
        )


def check_returns(path: Path | str, only_line: bytes) -> None:
    """Returns nothing if a file of this one line, without a line feed, has no returns within it.

    Raises:
        InputError: it has; Python and pandas end lines there, trec_eval and most others do not.
    """
    if b"\r" in only_line.rstrip(b"\r"):
        raise InputError(
            f"{path}: no line feed in the file, whose lines seem to end with returns, as those of "
            "old Macs do; convert it: tr '\\r' '\\n' < FILE. If it is one line, end it with a line "
            "feed"
        )


@contextmanager
def reading_parquet(path: Path | str) -> Iterator[None]:
    """Turns what pyarrow raises over a damaged file into an error that names it.

    These errors are of many classes, Python's own included; so nothing but pyarrow's calls belongs
    into the block.

    Raises:
        InputError: in the place of every error that is not raypipe's own.
    """
    try:
        yield
    except RaypipeError:
        raise
    except Exception as error:
        raise InputError(f"{path}: cannot be read as Parquet ({error})") from error


def check_ratio(path: Path | str, num_packed: int, num_unpacked: int) -> None:
    """Returns nothing if this many unpacked bytes may come out of a file of this many.

    Raises:
        InputError: more than `MAX_RATIO` times as many, and more than `MIN_UNPACKED_BYTES`.
    """
    if num_unpacked > max(MIN_UNPACKED_BYTES, MAX_RATIO * num_packed):
        raise InputError(
            f"{path}: expected at most {MAX_RATIO} times its {num_packed:,} packed bytes, found "
            f"more than {num_unpacked:,}; if its content is meant, unpack it and name that file"
        )


def similar(path: Path, others: Iterable[str]) -> str:
    """ "; did you mean X?", a name beside the path or one of others; empty if none is near."""
    beside = sorted(path.parent.glob("*")) if path.parent.is_dir() else []
    names = {each.name: str(each) for each in beside} | {name: name for name in others}
    near = get_close_matches(path.name, names, n=1)
    return f"; did you mean {names[near[0]]}?" if near else ""
