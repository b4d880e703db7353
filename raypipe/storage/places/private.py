"""Folders in shared places, such as the temporary directory, that only their owner may use."""

import os
import stat
from contextlib import suppress
from pathlib import Path

from raypipe.errors import InputError


def private_folder(path: Path) -> Path:
    """The folder itself, which belongs to this user and is closed to all others; made if missing.

    Its name can be predicted, so another user may have made it first to read or replace what is
    kept there.

    Raises:
        InputError: it belongs to somebody else, or is a link or a file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise InputError(
            f"{path}: expected a folder of user {os.getuid()}, found one of user {found.st_uid} "
            "or no folder; remove it, or set TMPDIR to a folder of your own"
        )
    if found.st_mode & 0o077:
        path.chmod(0o700)
    return path
