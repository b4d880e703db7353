"""A node's copies of a bucket's blobs: fetched once, bounded, the least recently used go first."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock

from raypipe.storage.records import hash_file

SIZE_VARIABLE = "RAYPIPE_CACHE_GIB"
"""Environment variable with the largest size of a node's cache."""
DEFAULT_GIB = 64.0
HELD = 64
"""Copies that a living process asked for last and that are therefore kept. Readers open or map a
copy at once, and what is mapped can be read after its name is gone."""
_LOOKS = 64
"""A process looks at the size after it has fetched this part of it."""


@dataclass
class _Held:
    """What this process says it uses: a file that is locked as long as the process lives."""

    pid: int
    stream: BinaryIO
    names: list[str]
    fetched_bytes: float = field(default=float("inf"))
    """Fetched since the last look at the size; the first fetch looks."""


_held: dict[Path, _Held] = {}


class NodeCache:
    """Copies of blobs in a folder of this node, shared by its processes."""

    def __init__(self, folder: Path, max_bytes: float | None = None) -> None:
        """The size is RAYPIPE_CACHE_GIB unless given, and at most half of the folder's disk."""
        self.folder = folder
        self._max_bytes = max_bytes

    def fetched(self, sha256: str, download: Callable[[Path], None]) -> Path:
        """The verified copy of a blob, which `download` writes if there is none.

        It stays while this process lives, until 64 others were asked for.
        """
        target = self.folder / sha256[:2] / sha256
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(target.parent.with_suffix(".lock")):
            self._hold(sha256)
            if target.exists() and hash_file(target) == sha256:
                os.utime(target)  # the time of its last use
            else:
                partial = target.with_suffix(".partial")
                download(partial)
                os.replace(partial, target)
                self._count(target.stat().st_size)
        return target

    def prune(self) -> None:
        """Remove copies that no living process holds, until the rest fits."""
        with self._locked():
            kept = self._in_use()
            copies = sorted((stat.st_mtime, stat.st_size, path) for path, stat in self._copies())
            excess = sum(size for _, size, _ in copies) - self.max_bytes()
            for _, size, path in copies:
                if excess <= 0:
                    return
                if path.stem not in kept:
                    path.unlink(missing_ok=True)
                    excess -= size

    def max_bytes(self) -> float:
        """The size that the copies may have together."""
        if self._max_bytes is not None:
            return self._max_bytes
        disk = os.statvfs(self.folder)
        wished = float(os.environ.get(SIZE_VARIABLE) or DEFAULT_GIB) * 2**30
        return min(wished, disk.f_blocks * disk.f_frsize / 2)

    def _count(self, num_bytes: int) -> None:
        own = _held[self.folder]
        own.fetched_bytes += num_bytes
        if own.fetched_bytes > self.max_bytes() / _LOOKS:
            self.prune()
            own.fetched_bytes = 0

    def _hold(self, sha256: str) -> None:
        """Say that this process uses a copy, before it looks whether there is one."""
        with self._locked():
            own = _held.get(self.folder)
            if own is None or own.pid != os.getpid():  # a forked child has a file of its own
                own = _held[self.folder] = self._enter()
            own.names = [*(name for name in own.names if name != sha256), sha256][-HELD:]
            own.stream.seek(0)
            own.stream.write("\n".join(own.names).encode())
            own.stream.truncate()
            own.stream.flush()

    def _enter(self) -> _Held:
        users = self.folder / "users"
        users.mkdir(exist_ok=True)
        stream = (users / f"{os.getpid()}-{os.urandom(4).hex()}").open("xb")
        fcntl.flock(stream, fcntl.LOCK_EX)
        return _Held(os.getpid(), stream, [])

    def _in_use(self) -> set[str]:
        """What living processes hold; the files of those that ended are removed."""
        found: set[str] = set()
        for path in (self.folder / "users").glob("*"):
            with path.open("rb") as stream:
                try:
                    fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    found.update(stream.read().decode().split())
                else:
                    path.unlink()
        return found

    def _copies(self) -> Iterator[tuple[Path, os.stat_result]]:
        for path in self.folder.glob("??/*"):
            with suppress(FileNotFoundError):  # a download that ended in this moment
                yield path, path.stat()

    def _locked(self) -> FileLock:
        return FileLock(self.folder / "lock")
