"""Storage in a bucket: conditional puts through s3fs or gcsfs, node-local verified copies.

A node's copies of a bucket's blobs are fetched once and bounded; the least recently used go first.
"""

import fcntl
import os
import shutil
import stat
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock

from raypipe.errors import CorruptError, InputError
from raypipe.storage.cleanup import wait_for_gc
from raypipe.storage.copies import ConflictError, open_filesystem, written
from raypipe.storage.holder import label_is_dead, process_label
from raypipe.storage.records import hash_file
from raypipe.storage.storage import Entry, Storage, checked_name


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
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise InputError(
            f"{path}: expected a folder of user {os.getuid()}, found one of user {status.st_uid} "
            "or no folder; remove it, or set TMPDIR to a folder of your own"
        )
    if status.st_mode & 0o077:
        path.chmod(0o700)
    return path


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
    """Copies that this process uses, in a file that is locked as long as the process lives."""

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
        """Names of the copies that living processes use; the files of ended ones are removed."""
        names: set[str] = set()
        for path in (self.folder / "users").glob("*"):
            with path.open("rb") as stream:
                try:
                    fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    names.update(stream.read().decode().split())
                else:
                    path.unlink()
        return names

    def _copies(self) -> Iterator[tuple[Path, os.stat_result]]:
        for path in self.folder.glob("??/*"):
            with suppress(FileNotFoundError):  # a download that ended in this moment
                yield path, path.stat()

    def _locked(self) -> FileLock:
        return FileLock(self.folder / "lock")


CONFLICTS = 6
"""Answers in a row that another put of the same name was under way, before `create` gives up."""
CONFLICT_SECONDS = 0.1
"""The wait after the first of them; each later one is twice as long."""


class BucketStorage:
    """A bucket prefix of stores; every create is a put that fails if the key exists.

    Each node fetches a blob once, into a cache folder under a file lock, and verifies it there.
    """

    def __init__(self, uri: str, owner: str = "unowned") -> None:
        """Connects at first use; errors of every method are also those of `bucket_errors`.

        Raises:
            InputError: the scheme's package is not installed.
        """
        self.uri = uri.rstrip("/")
        self._owner = owner
        self._cache = Path(tempfile.gettempdir()) / f"raypipe-cache-{os.getuid()}"
        self._fs, self._root = open_filesystem(self.uri, "stores: ")
        # s3fs asks for the size of an object before it reads it, unless it reads in one piece.
        self._whole = {"max_concurrency": 1} if self.uri.startswith("s3://") else {}

    def create(self, name: str, data: bytes) -> bool:
        """Create the record by a conditional put, repeated while another put is under way."""
        for attempt in range(CONFLICTS):
            try:
                self._fs.pipe_file(self._key(name), data, mode="create")
                return True
            except FileExistsError:
                return self._stands(name, data)
            except ConflictError:
                if attempt == CONFLICTS - 1:
                    raise
                time.sleep(CONFLICT_SECONDS * 2**attempt)
        raise AssertionError("unreachable")

    def _stands(self, name: str, data: bytes) -> bool:
        """Whether what has the name is this put's: it was carried out and the answer was lost."""
        try:
            return self._cat(self._key(name)) == data
        except FileNotFoundError:  # deleted since
            return False

    def replace(self, name: str, data: bytes) -> None:
        """Put the record, which a bucket replaces atomically."""
        self._fs.pipe_file(self._key(name), data)

    def append(self, name: str, line: bytes) -> None:
        """Write the line as a separate object, since a bucket cannot append."""
        key = f"{name}.lines/{time.time_ns():020d}-{uuid.uuid4().hex}"
        self._fs.pipe_file(self._key(key), line.rstrip(b"\n") + b"\n")

    def tail(self, name: str, start: int) -> tuple[bytes, int]:
        """The lines from number `start` on, and the number to continue from.

        A later line with an earlier clock may be skipped.
        """
        lines = self._lines(name)
        data = b"".join(self._cat(line) for line in lines[start:])
        return data, max(start, len(lines))

    def newest(self, name: str) -> Iterator[bytes]:
        """The lines from the last one back, each fetched when it is taken."""
        return (self._cat(line).rstrip(b"\n") for line in reversed(self._lines(name)))

    def read(self, name: str) -> bytes:
        """The bytes of a record, or a log's lines in the order of their writers' clocks."""
        if not name.endswith(".jsonl"):
            return self._cat(self._key(name))
        lines = self._lines(name)
        if not lines:
            raise FileNotFoundError(f"{self.uri}/{name}")
        return b"".join(self._cat(line) for line in lines)

    def _lines(self, name: str) -> list[str]:
        """The objects of a log's lines, the oldest first."""
        self._fs.invalidate_cache()
        return sorted(self._fs.find(self._key(f"{name}.lines")))

    def _cat(self, key: str) -> bytes:
        data: bytes = self._fs.cat_file(key, **self._whole)
        return data

    def exists(self, name: str) -> bool:
        """Whether a byte of the record can be read: a query for its name lists all under it too."""
        try:
            self._fs.cat_file(self._key(name), start=0, end=1)
        except FileNotFoundError:
            return False
        return True

    def put(self, sha256: str, file: Path) -> None:
        """Upload the file even if the blob exists, so that a damaged one is replaced.

        The new object's time tells gc that it is used again.
        """
        if hash_file(file) != sha256:
            raise CorruptError(f"{file}: its bytes changed between hashing and storing; run again")
        self._fs.put_file(str(file), self._blob(sha256))
        # A gc that saw the old time may also have ended just before its mark was looked for.
        while wait_for_gc(self, f"blobs/{sha256}") or not self.has(sha256):
            self._fs.put_file(str(file), self._blob(sha256))
        file.unlink(missing_ok=True)

    def has(self, sha256: str) -> bool:
        """Whether the bucket has the blob now; does not read it."""
        self._fs.invalidate_cache()
        return bool(self._fs.exists(self._blob(sha256)))

    def check(self, sha256: str) -> None:
        """Download the whole blob past the cache. Raises CorruptError if it is lost or damaged."""
        folder = Path(tempfile.mkdtemp(prefix="raypipe-check-"))
        try:
            self._download(sha256, folder / sha256)
        finally:
            shutil.rmtree(folder)

    def local(self, sha256: str) -> Path:
        """A verified copy in this node's cache; NodeCache says how long it stays."""
        cache = NodeCache(private_folder(self._cache))
        return cache.fetched(checked_name(sha256), partial(self._download, sha256))

    def scratch(self) -> Path:
        """A new folder of this node, after the removal of folders that its dead processes left."""
        root = private_folder(Path(tempfile.gettempdir()) / f"raypipe-scratch-{os.getuid()}")
        for left in root.iterdir():
            if label_is_dead(left.name):
                shutil.rmtree(left, ignore_errors=True)
        folder = root / process_label() / uuid.uuid4().hex
        folder.mkdir(parents=True)
        return folder

    def owned(self, owner: str) -> Storage:
        """The same bucket prefix for this owner."""
        return BucketStorage(self.uri, checked_name(owner))

    def sweep(self) -> None:
        """Does nothing, since a put leaves nothing unfinished on a bucket."""

    def names(self, prefix: str) -> Iterator[str]:
        """Names of all objects under the prefix, sorted."""
        self._fs.invalidate_cache()
        root = f"{self._root}/{prefix}" if prefix else self._root
        for key in sorted(self._fs.find(root)):
            yield str(key)[len(self._root) + 1 :]

    def entries(self) -> Iterator[Entry]:
        """Every object with its size and time, from one listing, sorted by name."""
        self._fs.invalidate_cache()
        for key, info in sorted(self._fs.find(self._root, detail=True).items()):
            yield Entry(str(key)[len(self._root) + 1 :], info["size"], written(info))

    def entry(self, name: str) -> Entry | None:
        """The object's size and time; None if it is gone."""
        self._fs.invalidate_cache()
        try:
            info = self._fs.info(self._key(name))
        except FileNotFoundError:
            return None
        return None if info["type"] == "directory" else Entry(name, info["size"], written(info))

    def peek(self, name: str) -> bytes | None:
        """The object's bytes; None if it is gone."""
        try:
            return self._cat(f"{self._root}/{name}")
        except FileNotFoundError:
            return None

    def delete(self, name: str) -> None:
        """Delete the object."""
        self._fs.rm_file(self._key(name))

    def free_bytes(self) -> int | None:
        """None: a bucket has no such limit."""
        return None

    def _download(self, sha256: str, target: Path) -> None:
        try:
            self._fs.get_file(self._blob(sha256), str(target))
            actual = hash_file(target)
        except FileNotFoundError:
            actual = "no object"
        if actual != sha256:
            target.unlink(missing_ok=True)
            raise CorruptError(
                f"{self.uri}/blobs/{sha256[:2]}/{sha256}: expected these bytes' SHA-256, "
                f"found {actual}. `raypipe verify` lists the shards it belongs to."
            )

    def _key(self, name: str) -> str:
        return f"{self._root}/{checked_name(name)}"

    def _blob(self, sha256: str) -> str:
        return self._key(f"blobs/{sha256[:2]}/{sha256}")

    def __reduce__(self) -> tuple[Any, ...]:
        return BucketStorage, (self.uri, self._owner)
