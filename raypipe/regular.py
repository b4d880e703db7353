"""Refuses what is no regular file: reading a pipe or a device may never end."""

import os
import stat
from pathlib import Path

from raypipe.errors import InputError

_KINDS = {
    stat.S_IFDIR: ("a folder", "name the file in it"),
    stat.S_IFIFO: ("a pipe", "write its content to a file, which is read more than once"),
    stat.S_IFCHR: ("a device", "name a file"),
    stat.S_IFBLK: ("a device", "name a file"),
    stat.S_IFSOCK: ("a socket", "name a file"),
}


def check_regular(path: Path | str, expected: str = "a file") -> None:
    """Returns nothing if the path names a regular file or nothing at all.

    Raises:
        InputError: a folder, a pipe, a device or a socket.
    """
    try:
        kind = stat.S_IFMT(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return
    if kind in _KINDS:
        found, remedy = _KINDS[kind]
        raise InputError(f"{path}: expected {expected}, found {found}; {remedy}")
