"""Storage in a folder: temporary file, fsync, link; a create never overwrites."""

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from raypipe.errors import CorruptError, InputError
from raypipe.regular import check_regular
from raypipe.storage.cleanup import wait_for_gc
from raypipe.storage.files import append_line, make_folder, naming, sync
from raypipe.storage.holder import label_is_dead, process_label
from raypipe.storage.records import hash_file
from raypipe.storage.storage import Entry, Storage, checked_name


class PosixStorage:
    """A root folder of stores; every create is a hard link, so the first writer wins.

    Unfinished files are under `tmp/OWNER/`. The owner is a store, so that the holder of its lease
    can remove what a killed invocation left, or a process, removed once it is provably dead.
    """

    def __init__(self, root: Path, owner: str | None = None) -> None:
        self.root = root
        self.uri = str(root)
        self._owner = owner
        self._verified: set[str] = set()

    def create(self, name: str, data: bytes) -> bool:
        """Create the record with a hard link to a complete file; False if the name exists."""
        target = self.root / checked_name(name)
        if target.exists():  # cheap; the link itself decides
            return False
        temporary = self._temporary()
        try:
            _write_durably(temporary, data)
            return _link(temporary, target)
        finally:
            _forget(temporary)

    def replace(self, name: str, data: bytes) -> None:
        """Replace the record by the rename of a complete file."""
        target = self.root / checked_name(name)
        make_folder(target.parent)
        temporary = self._temporary()
        _write_durably(temporary, data)
        os.replace(temporary, target)
        sync(target.parent)

    def append(self, name: str, line: bytes) -> None:
        """Add the line to the log's file with one write call."""
        append_line(self.root / checked_name(name), line)

    def tail(self, name: str, start: int) -> tuple[bytes, int]:
        """The complete lines after byte `start`, and the byte to continue from."""
        try:
            check_regular(self.root / checked_name(name))
            with (self.root / name).open("rb") as file:
                file.seek(start)
                data = file.read()
        except FileNotFoundError:
            return b"", start
        whole = data[: data.rfind(b"\n") + 1]
        return whole, start + len(whole)

    def newest(self, name: str) -> Iterator[bytes]:
        """The lines from the last one back, after one reading of the file; none without a file."""
        try:
            yield from reversed(self.read(name).splitlines())
        except FileNotFoundError:
            return

    def read(self, name: str) -> bytes:
        """Read the file. Raises FileNotFoundError, and CorruptError if it is no regular file."""
        path = self.root / checked_name(name)
        try:
            check_regular(path)  # a pipe would wait for ever
        except InputError as error:
            raise CorruptError(str(error)) from error
        return path.read_bytes()

    def exists(self, name: str) -> bool:
        """Whether the record has a file."""
        return (self.root / checked_name(name)).exists()

    def put(self, sha256: str, file: Path) -> None:
        """Link a file of this root's scratch under its hash, or a copy of any other file.

        A damaged blob under this hash is replaced: the hash says what belongs there.
        """
        target = self._blob(sha256)
        if self._adopt(sha256, target):
            return
        temporary = file
        if not file.is_relative_to(self.root / "tmp"):
            temporary = self._temporary()
            with naming(temporary):
                shutil.copyfile(file, temporary)
        sync(temporary)
        if hash_file(temporary) != sha256:
            raise CorruptError(f"{file}: its bytes changed between hashing and storing; run again")
        os.chmod(temporary, 0o444)
        if not _link(temporary, target) and hash_file(target) != sha256:
            os.replace(temporary, target)
        _forget(temporary)

    def _adopt(self, sha256: str, target: Path) -> bool:
        """Whether the blob stands; its new time tells gc that it is used again."""
        try:
            if hash_file(target) != sha256:
                return False
            os.utime(target)
        except FileNotFoundError:
            return False
        if wait_for_gc(self, f"blobs/{sha256}"):
            return self._adopt(sha256, target)
        return target.exists()  # a gc that saw the old time may have ended before its mark was seen

    def has(self, sha256: str) -> bool:
        """Whether the blob has a file; does not read it."""
        return self._blob(sha256).exists()

    def check(self, sha256: str) -> None:
        """Hash the blob's whole file. Raises CorruptError if it is missing or its hash differs."""
        path = self._blob(sha256)
        actual = hash_file(path) if path.exists() else "no file"
        if actual != sha256:
            raise CorruptError(
                f"blobs/{sha256[:2]}/{sha256}: expected these bytes' SHA-256, found {actual}. "
                "`raypipe verify` lists the shards it belongs to and how to rebuild them."
            )

    def local(self, sha256: str) -> Path:
        """The path of the blob itself, whose hash is verified once per process."""
        if sha256 not in self._verified:
            self.check(sha256)
            self._verified.add(sha256)
        return self._blob(sha256)

    def scratch(self) -> Path:
        """A new folder under `tmp/OWNER/` of the root."""
        make_folder(self.root)
        folder = self._folder() / uuid.uuid4().hex
        folder.mkdir(parents=True)
        return folder

    def owned(self, owner: str) -> Storage:
        """The same root, with unfinished files under `tmp/` and this owner."""
        return PosixStorage(self.root, checked_name(owner))

    def sweep(self) -> None:
        """Remove this owner's folder under `tmp/`, and those of provably dead processes."""
        shutil.rmtree(self._folder(), ignore_errors=True)
        for folder in (self.root / "tmp").glob("process-*"):
            if label_is_dead(folder.name):
                shutil.rmtree(folder, ignore_errors=True)

    def names(self, prefix: str) -> Iterator[str]:
        """Names of all files under a folder, sorted within each folder."""
        start = self.root / prefix if prefix else self.root
        for folder, folders, files in os.walk(start):
            folders.sort()
            for file in sorted(files):
                yield str((Path(folder) / file).relative_to(self.root))

    def entries(self) -> Iterator[Entry]:
        """Every file under the root with its size and time, unfinished files too."""
        entries = (self.entry(name) for name in self.names(""))
        return (entry for entry in entries if entry is not None)

    def entry(self, name: str) -> Entry | None:
        """The file's size and time of last change; None if it is gone."""
        try:
            status = (self.root / name).stat()
        except FileNotFoundError:
            return None
        return Entry(name, status.st_size, status.st_mtime)

    def peek(self, name: str) -> bytes | None:
        """The file's bytes; None if it is gone."""
        try:
            return self.read(name)
        except FileNotFoundError:
            return None

    def delete(self, name: str) -> None:
        """Delete the file, and the folders that become empty."""
        path = self.root / checked_name(name)
        path.unlink(missing_ok=True)
        for parent in path.parents:
            if parent == self.root:
                break
            try:
                parent.rmdir()
            except OSError:
                break  # not empty, perhaps only since a moment ago

    def free_bytes(self) -> int | None:
        """Free space of the file system on which the root is, in bytes."""
        existing = next(p for p in (self.root, *self.root.parents) if p.exists())
        return shutil.disk_usage(existing).free

    def _blob(self, sha256: str) -> Path:
        return self.root / "blobs" / sha256[:2] / checked_name(sha256)

    def _temporary(self) -> Path:
        make_folder(self.root)
        folder = self._folder()
        folder.mkdir(parents=True, exist_ok=True)
        return folder / uuid.uuid4().hex

    def _folder(self) -> Path:
        return self.root / "tmp" / (self._owner or process_label())

    def __getstate__(self) -> dict[str, object]:
        return {"root": self.root, "uri": self.uri, "_owner": self._owner, "_verified": set()}


def _write_durably(path: Path, data: bytes) -> None:
    with naming(path), path.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def _forget(temporary: Path) -> None:
    """Remove an unfinished file; one that cannot be removed is swept later, and fails nothing."""
    with suppress(OSError):
        temporary.unlink(missing_ok=True)


def _link(source: Path, target: Path) -> bool:
    make_folder(target.parent)
    try:
        os.link(source, target)
    except FileExistsError:
        return os.path.samefile(source, target)  # linked, and the answer was lost (NFS)
    except FileNotFoundError:
        if not source.exists():
            raise
        return _link(source, target)  # the folder was empty, and another process removed it
    except OSError:
        if not (target.exists() and os.path.samefile(source, target)):
            raise  # else it was linked, and the answer was lost
    sync(target.parent)
    return True
