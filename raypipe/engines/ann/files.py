"""faiss's indexes as files, which plain faiss reads too."""

import errno
from pathlib import Path

import faiss

from raypipe.errors import CorruptError


def write_index(index: faiss.Index, path: Path) -> None:
    """Write an index.

    Raises:
        OSError: it could not be written; faiss does not give the system's number.
    """
    try:
        faiss.write_index(index, str(path))
    except RuntimeError as error:
        raise OSError(errno.EIO, f"faiss could not write it ({error})", str(path)) from error


def read_index(path: Path) -> faiss.Index:
    """The index of a file.

    Raises:
        CorruptError: faiss cannot read it.
    """
    try:
        return faiss.read_index(str(path))
    except RuntimeError as error:
        raise CorruptError(f"{path.name}: not an index that faiss reads: {error}") from error
