"""Writes files and folders so that a reader sees the old or the new one, never a part.

And lines of a log, which stand alone whatever a crash left before them.
"""

import errno
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from raypipe.storage.holder import label_is_dead, process_label
from raypipe.storage.records import Json

ABANDONED_SECONDS = 24 * 3600.0
"""After so long, what an unseen process has not renamed is taken for abandoned."""
_DEVICES = (Path("/dev"), Path("/dev/fd"))
"""/dev/stdout may lead to a plain file, and is a link that a rename would put an end to."""


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """While the file is written: the system names no file where a write fails, as on a full disk.

    Raises:
        OSError: with the file's name.
    """
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write, which replaces `path` when the block ends without an error.

    It is written beside the target, flushed to disk, then renamed; the rename is made durable too.
    What is in /dev, such as /dev/stdout, is no file to replace: it is written to as it is.
    """
    if path.parent in _DEVICES:
        with path.open("ab") as stream:
            yield stream
        return
    make_folder(path.parent)
    sweep_beside(path)
    beside = _beside(path)
    try:
        with naming(path):
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
    if path.is_file() and path.read_bytes() == data:
        sweep_beside(path)
        return
    with replacing(path) as stream:
        stream.write(data)


@contextmanager
def folder_beside(target: Path) -> Iterator[Path]:
    """An empty folder to fill beside the target; `appear` turns it into the target.

    It is removed when the block ends, unless it has become the target.
    """
    make_folder(target.parent)
    sweep_beside(target)
    beside = _beside(target)
    beside.mkdir()
    try:
        yield beside
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def appear(folder: Path, target: Path) -> None:
    """Rename a filled folder to the target, which is new or an empty folder; all of it is durable.

    Raises:
        OSError: the target is a file, or a folder that is not empty.
    """
    for path in (*folder.rglob("*"), folder):
        sync(path)
    os.rename(folder, target)
    sync(target.parent)


def replace_folder(folder: Path, target: Path) -> None:
    """Rename a filled folder to the target; a folder that is there is renamed first, then removed.

    Between the two renames there is none, so that nobody reads a part of either.
    """
    for path in (*folder.rglob("*"), folder):
        sync(path)
    old = _beside(target)
    if target.exists():
        os.rename(target, old)
    try:
        os.rename(folder, target)
    except OSError:
        if old.exists() and not target.exists():
            os.rename(old, target)
        raise
    sync(target.parent)
    shutil.rmtree(old, ignore_errors=True)


def sweep_beside(target: Path) -> None:
    """Remove what killed processes left beside a target; what cannot be removed harms nobody."""
    label = r"process-\d+-\d+-[0-9a-f]{8}"
    form = re.compile(rf"\.{re.escape(target.name)}\.(?:({label})\.)?[0-9a-f]{{8}}\.tmp")
    with suppress(OSError):
        for name in os.listdir(target.parent):
            path, found = target.parent / name, form.fullmatch(name)
            if found is None or not (label_is_dead(found[1] or "") or _is_abandoned(path)):
                continue
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name}.{process_label()}.{secrets.token_hex(4)}.tmp")


def _is_abandoned(path: Path) -> bool:
    return path.stat().st_mtime < time.time() - ABANDONED_SECONDS


def make_folder(folder: Path, tries: int = 8) -> None:
    """Create a folder with its parents; each new name is durable in its own parent.

    Raises:
        PermissionError: no folder can be made there, as in /proc.
    """
    if folder.is_dir():
        return
    make_folder(folder.parent)
    try:
        folder.mkdir(exist_ok=True)
        sync(folder.parent)
    except FileNotFoundError:  # another process removed the parent, which was empty
        if not tries:
            reason = "no folder can be made there"
            raise PermissionError(errno.EPERM, reason, str(folder)) from None
        make_folder(folder, tries - 1)


def append_line(path: Path, line: bytes) -> None:
    """Add a line to a file; one write call with O_APPEND, so that lines of two writers do not mix.

    What a crash or a short write left of a line is ended first, and the line is written whole.

    Raises:
        OSError: also if the file takes only parts of the line.
    """
    make_folder(path.parent)
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        whole = line.rstrip(b"\n") + b"\n"
        for _ in range(_APPENDS):
            end = os.fstat(descriptor).st_size
            torn = end and os.pread(descriptor, 1, end - 1) != b"\n"
            data = b"\n" + whole if torn else whole
            with naming(path):
                if os.write(descriptor, data) == len(data):
                    return
    finally:
        os.close(descriptor)
    raise OSError(errno.EIO, f"a line was written in part {_APPENDS} times", str(path))


_APPENDS = 3


def sync(path: Path) -> None:
    """Make a file's bytes, or the names in a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with naming(path):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def note_in(path: Path) -> Json:
    """The content of a note beside files that raypipe made: what they were made from.

    None if there is none or it is damaged: the files are made again.
    """
    try:
        return json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
