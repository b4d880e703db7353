"""Counts the calls that open or change files under a folder, and makes the n-th fail.

Python's own calls are met one by one. What a library writes by itself (Parquet, safetensors) is
met where it is called. An fsync is counted and not performed: no machine loses its power here.
"""

import builtins
import errno
import io
import os
import stat
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from crashes.native import native_patches

CHANGES = frozenset(
    ["create", "write", "library write", "link", "rename", "unlink", "mkdir", "rmdir"]
    + ["truncate", "mode"]
)
TAKES_SPACE = frozenset(["create", "write", "library write", "link", "rename", "mkdir"])
FAULTS = ("kill", "EIO", "lost answer", "short write", "ENOSPC", "EROFS")
"""`kill`: the process ends at the call, in the middle of a write. EIO: the call fails, once. `lost
answer`: it succeeds and says EIO. `short write`: half is written, which is no error. ENOSPC and
EROFS last: from this call on, every call fails that takes space or changes anything."""


class Killed(BaseException):
    """The process has ended: neither `except` nor `finally` changes anything any more."""


@dataclass(frozen=True)
class Fault:
    """What happens at the n-th call, from 1."""

    kind: str
    at: int

    def can_meet(self, call):
        """Whether this kind of fault can happen to a call of this name."""
        affected = {"short write": {"write"}, "ENOSPC": TAKES_SPACE, "EROFS": CHANGES}
        return call in affected.get(self.kind, (call,))

    def meets(self, number, call):
        lasting = self.kind in ("ENOSPC", "EROFS")
        return (number >= self.at if lasting else number == self.at) and self.can_meet(call)


class Disk:
    """The calls under a folder."""

    def __init__(self, root, fault=None):
        self.root, self.fault = f"{os.path.realpath(root)}/", fault
        self.calls, self.dead = [], False

    def meet(self, call, path, do, part=None, drop=lambda result: None):
        """What the call gives. `part` does half of a write; `drop` closes what nobody gets."""
        if not self._holds(path):
            return do()
        if self.dead:
            raise Killed
        self.calls.append(call)
        if self.fault is None or not self.fault.meets(len(self.calls), call):
            return do()
        kind = self.fault.kind
        if part is not None and kind in ("kill", "ENOSPC", "short write"):
            written = part()
            if kind == "short write":
                return written
        if kind == "kill":
            self.dead = True
            raise Killed
        if kind == "lost answer":
            drop(do())
        number = getattr(errno, kind, errno.EIO)
        raise OSError(number, os.strerror(number), path)

    def _holds(self, path):
        if self.root in path:
            return True
        return f"{path}/" == self.root


@contextmanager
def counted(root, fault=None):
    """The disk, while raypipe's calls under `root` are met."""
    disk = Disk(root, fault)
    with ExitStack() as stack:
        for module, name, new in [*_patches(disk), *native_patches(disk)]:
            stack.enter_context(patch.object(module, name, new))
        yield disk


_REAL = {
    name: getattr(os, name)
    for name in "open write fsync link rename replace unlink remove mkdir rmdir chmod utime "
    "truncate ftruncate sendfile close".split()
}
_OPEN = io.open
_CALLS = {
    "rename": "rename",
    "replace": "rename",
    "unlink": "unlink",
    "remove": "unlink",
    "mkdir": "mkdir",
    "rmdir": "rmdir",
    "chmod": "mode",
    "utime": "mode",
    "truncate": "truncate",
    "ftruncate": "truncate",
}


def _patches(disk):
    """(module, name, function) of everything in Python that opens or changes a file."""
    for name, call in _CALLS.items():
        yield os, name, _plain(disk, call, _REAL[name])

    def link(source, target, **options):
        return disk.meet("link", _path(target), lambda: _REAL["link"](source, target, **options))

    def open_number(path, flags, *mode, dir_fd=None):
        call = "create" if flags & os.O_CREAT else "open"
        do = lambda: _REAL["open"](path, flags, *mode, dir_fd=dir_fd)  # noqa: E731
        return disk.meet(call, _path(path, dir_fd), do, drop=_REAL["close"])

    def write(number, data):
        half = max(1, len(data) // 2)
        return disk.meet(
            "write",
            _path(number),
            lambda: _REAL["write"](number, data),
            lambda: _REAL["write"](number, data[:half]),
        )

    def sendfile(out, source, offset, count):
        half = max(1, os.fstat(source).st_size // 2)
        return disk.meet(
            "write",
            _path(out),
            lambda: _REAL["sendfile"](out, source, offset, count),
            lambda: _REAL["sendfile"](out, source, offset, min(count, half)),
        )

    def fsync(number):
        path = _path(number)
        folder = stat.S_ISDIR(os.fstat(number).st_mode)
        disk.meet("folder fsync" if folder else "fsync", path, lambda: None)

    def opened(file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, *rest):
        if isinstance(file, int) or rest:
            return _OPEN(file, mode, buffering, encoding, errors, newline, *rest)
        if not set(mode) & set("wxa+"):
            do = lambda: _OPEN(file, mode, buffering, encoding, errors, newline)  # noqa: E731
            return disk.meet("open", _path(file), do, drop=io.IOBase.close)
        if not disk._holds(_path(file)):
            return _OPEN(file, mode, buffering, encoding, errors, newline)

        def do():
            raw = _Counted(file, mode.replace("b", "").replace("t", ""), disk)
            buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
            if "b" in mode:
                return buffered
            return io.TextIOWrapper(buffered, encoding, errors, newline, buffering == 1)

        return disk.meet("create", _path(file), do, drop=io.IOBase.close)

    yield from [(os, "link", link), (os, "open", open_number), (os, "write", write)]
    yield from [(os, "sendfile", sendfile), (os, "fsync", fsync)]
    yield from [(io, "open", opened), (builtins, "open", opened)]


def _plain(disk, call, real):
    def met(path, *arguments, dir_fd=None, **options):
        where = {} if dir_fd is None else {"dir_fd": dir_fd}
        found = _path(path, dir_fd)
        return disk.meet(call, found, lambda: real(path, *arguments, **where, **options))

    return met


class _Counted(io.FileIO):
    """A file whose writes are met."""

    def __init__(self, path, mode, disk):
        super().__init__(path, mode)
        self._disk, self._path = disk, _path(path)

    def write(self, data):
        view = memoryview(data).cast("B")
        inner = super()
        half = max(1, len(view) // 2)
        return self._disk.meet(
            "write", self._path, lambda: inner.write(view), lambda: inner.write(view[:half])
        )


def _path(path, dir_fd=None):
    """The absolute path of a name or of an open file."""
    if isinstance(path, int):
        return os.readlink(f"/proc/self/fd/{path}")
    if dir_fd is not None:
        return os.path.join(_path(dir_fd), os.fspath(path))
    return os.path.abspath(os.fspath(path)) if not isinstance(path, Path) else str(path.absolute())
