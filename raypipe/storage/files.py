"""Writes files and folders so that a reader sees the old or the new one, never a part.

And lines of a log, which stand alone whatever a crash left before them.
"""

import errno
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TextIO

from raypipe.errors import InputError
from raypipe.storage.fence import LABEL, Fence, behind, fence_of, is_abandoned
from raypipe.storage.holder import label_is_dead, process_label
from raypipe.storage.records import Json

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
def taking_the_place(path: Path) -> Iterator[Path]:
    """A new path; what the block leaves there replaces `path`, if it ends without an error.

    Whoever needs that makes the bytes and the rename durable; see `replacing`.

    Raises:
        InputError: `path` is a folder, or is in what is no folder.
        RefusedError: a successor has taken over; see Fence.
    """
    fence = fence_of(path)
    with behind(fence):
        _make_parents(path, fence)
        sweep_beside(path)
        beside = _beside(path, fence)
        try:
            with naming(path):
                yield beside
                _rename(beside, path, fence)
        except OSError as error:
            if path.is_dir() and not path.is_symlink():
                raise InputError(
                    f"{path}: expected a file or nothing, found a folder; move it away and run "
                    "again"
                ) from error
            if error.errno is not None and error.filename == str(beside):
                error.filename = str(path)
            raise
        finally:
            beside.unlink(missing_ok=True)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write, which replaces `path` when the block ends without an error.

    It is written beside the target or behind its fence, flushed to disk, then renamed; the rename
    is made durable too. A device such as /dev/stdout is no file to replace: it is written to as it
    is.

    Raises:
        InputError: see `taking_the_place`.
        RefusedError: see `taking_the_place`.
    """
    if path.parent in _DEVICES:
        with path.open("ab") as stream:
            yield stream
        return
    with taking_the_place(path) as beside, beside.open("xb") as stream:
        yield stream
        stream.flush()
        os.fsync(stream.fileno())
    with behind(fence_of(path)):
        sync(path.parent)


def replace_file(path: Path, data: bytes) -> None:
    """Write the bytes with `replacing`; a file that already holds them is not touched."""
    if path.is_file() and path.read_bytes() == data:
        sweep_beside(path)
        return
    with replacing(path) as stream:
        stream.write(data)


@contextmanager
def appearing(path: Path) -> Iterator[BinaryIO]:
    """A new file; nothing of it is left if the block ends with an error.

    Raises:
        FileExistsError: there is one by now; it stays.
    """
    with naming(path), path.open("xb") as stream:
        try:
            yield stream
            stream.flush()
        except BaseException:
            path.unlink()
            raise


def started_over(path: Path) -> TextIO:
    """An empty file in the place of `path`, open for lines that appear as they are written.

    Who has the file open that was there goes on writing to that one, which has no name any more.
    """
    with taking_the_place(path) as beside:
        return beside.open("x", buffering=1)


def remove(path: Path) -> None:
    """Remove a file, or a folder with all that is in it; nothing if it is not there.

    Raises:
        RefusedError: a successor has taken over; see Fence.
    """
    if not os.path.lexists(path):
        return
    fence = fence_of(path)
    if fence is not None:
        with behind(fence):
            path = _moved_aside(path, fence)
    _delete(path)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def folder_beside(target: Path) -> Iterator[Path]:
    """An empty folder to fill; `appear` or `replace_folder` turns it into the target.

    It is beside the target, or behind its fence, and removed when the block ends, unless it has
    become the target.
    """
    fence = fence_of(target)
    with behind(fence):
        _make_parents(target, fence)
        sweep_beside(target)
        beside = _beside(target, fence)
        beside.mkdir()
        try:
            with naming(target):
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

    Raises:
        InputError: the target is a file.
        RefusedError: a successor has taken over; see Fence.
    """
    if os.path.lexists(target) and not target.is_dir():
        raise InputError(
            f"{target}: expected a folder or nothing, found a file; move it away and run again"
        )
    fence = fence_of(target)
    with behind(fence):
        for path in (*folder.rglob("*"), folder):
            sync(path)
        old = _moved_aside(target, fence) if target.exists() else None
        try:
            _rename(folder, target, fence)
        except OSError:
            if old is not None and old.exists() and not target.exists():
                _rename(old, target, fence)
            raise
        sync(target.parent)
        if old is not None:
            shutil.rmtree(old, ignore_errors=True)


def _rename(source: Path, target: Path, fence: Fence | None) -> None:
    """Rename what is finished to its target, which a file replaces; see Fence."""
    if fence is None:
        rename = os.rename if source.is_dir() else os.replace
        rename(source, target)
        return
    try:
        fence.rename(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        beside = _beside(target)
        try:
            if source.is_dir():
                shutil.copytree(source, beside)
            else:
                shutil.copyfile(source, beside)
            for path in (*beside.rglob("*"), beside):
                sync(path)
            fence.check()
            os.replace(beside, target)
        finally:
            _delete(beside)


def _moved_aside(path: Path, fence: Fence | None) -> Path:
    """Where a file or folder is that had this path, which has nothing now."""
    if fence is not None:
        aside = _beside(path, fence)
        try:
            fence.rename(path, aside)
            return aside
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
        fence.check()
    aside = _beside(path)
    os.replace(path, aside)
    return aside


def _make_parents(path: Path, fence: Fence | None) -> None:
    """Create the folder of a path, with its parents; behind a fence by a rename too.

    Raises:
        InputError: one of them is a file.
    """
    folder = path.parent
    if folder.is_dir():
        return
    if os.path.lexists(folder):
        raise InputError(f"{folder}: expected a folder, found a file; move it away and run again")
    if fence is None or folder == fence.root:
        make_folder(folder)
        return
    _make_parents(folder, fence)
    new = _beside(folder, fence)
    new.mkdir()
    try:
        fence.rename(new, folder)
    except OSError as error:
        if error.errno == errno.EXDEV:
            fence.check()
            make_folder(folder)
        elif not folder.is_dir():
            raise
    sync(folder.parent)


def sweep_beside(target: Path) -> None:
    """Remove what killed processes left beside a target; what cannot be removed harms nobody."""
    form = re.compile(rf"\.{re.escape(target.name)}\.(?:({LABEL})\.)?[0-9a-f]{{8}}\.tmp")
    with suppress(OSError):
        for name in os.listdir(target.parent):
            path, match = target.parent / name, form.fullmatch(name)
            if match is None or not (label_is_dead(match[1] or "") or is_abandoned(path)):
                continue
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


def _beside(target: Path, fence: Fence | None = None) -> Path:
    """A new name beside a target, or in the staging folder of its fence."""
    if fence is not None:
        return fence.staging / secrets.token_hex(8)
    return target.with_name(f".{target.name}.{process_label()}.{secrets.token_hex(4)}.tmp")


def make_folder(folder: Path, tries: int = 8) -> None:
    """Create a folder with its parents; each new name is durable in its own parent.

    Raises:
        InputError: a file, or a link to nothing, is in its place.
        PermissionError: no folder can be made there, as in /proc.
    """
    if folder.is_dir():
        return
    make_folder(folder.parent)
    try:
        folder.mkdir(exist_ok=True)
        sync(folder.parent)
    except FileExistsError as error:
        if not os.path.lexists(folder) and tries:  # another process removed it, as it was empty
            make_folder(folder, tries - 1)
            return
        raise InputError(
            f"{folder}: expected a folder, found a file; move it away and run again"
        ) from error
    except FileNotFoundError:  # another process removed the parent, which was empty
        if not tries:
            reason = "no folder can be made there"
            raise PermissionError(errno.EPERM, reason, str(folder)) from None
        make_folder(folder, tries - 1)


def append_line(path: Path, line: bytes) -> None:
    """Add a line to a file; one write call with O_APPEND, so that lines of two writers do not mix.

    An earlier line that a crash or a short write left in part is ended first, and the new one is
    written whole.

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
