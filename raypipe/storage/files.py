"""Writes files so that a reader sees the old one or the new one, never a part."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write, which replaces `path` when the block ends without an error.

    It is written beside the target, flushed to disk, then renamed; the rename is made durable too.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with beside.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    sync(path.parent)


def replace_file(path: Path, data: bytes) -> None:
    """Write the bytes with `replacing`; a file that already holds them is not touched."""
    if path.exists() and path.read_bytes() == data:
        return
    with replacing(path) as stream:
        stream.write(data)


def sync(path: Path) -> None:
    """Make a file's bytes, or the names in a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
