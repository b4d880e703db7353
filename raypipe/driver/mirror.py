"""A workspace in a bucket: a folder of this machine that mirrors it while a command runs.

The lease, the identity and the stores are in the bucket itself. Summary, results, recipe, runs,
measures and tables are written in the folder and copied to the bucket: the summary whenever it is
written, results.json when it is written or removed, the others before results.json names them.
"""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from raypipe.errors import InputError
from raypipe.storage.fence import check_fence
from raypipe.storage.files import make_folder, remove, replace_file, sync
from raypipe.storage.records import digest, hash_file
from raypipe.storage.root import open_storage
from raypipe.storage.storage import Storage
from raypipe.uris import in_bucket

MARK = ".mirrors"
"""The file with the workspace's URI."""
READ_FIRST = ("workspace.json", "summary.json", "results.json", "recipe.yaml")
"""Files that commands read before they know the workspace."""
COPIED = ".copied"
"""The hashes of the files that were copied; of summary.json the last."""
LOCK = ".lock"
"""Commands of one machine share a mirror: one refreshes it or writes through it at a time."""
_LOCAL = frozenset({MARK, COPIED, LOCK, "inputs", "python-docs", "stores", "tmp"})


def mirror_of(uri: str) -> Path:
    """The folder that mirrors a workspace, with the files that commands read first as they are."""
    uri = uri.rstrip("/")
    folder = _home() / digest(uri.encode())[:32]
    make_folder(folder)
    own = open_storage(uri)
    with _alone(folder):
        for name in READ_FIRST:
            try:
                replace_file(folder / name, own.read(name))
            except FileNotFoundError:
                (folder / name).unlink(missing_ok=True)
        replace_file(folder / MARK, uri.encode())
    return folder


def address_of(folder: Path) -> str:
    """The URI that a folder mirrors, or the folder itself."""
    mark = folder / MARK
    return mark.read_text() if mark.exists() else str(folder)


def default_stores(folder: Path) -> str:
    """Where a workspace's stores are if its recipe names no others."""
    address = address_of(folder)
    return f"{address}/stores" if in_bucket(address) else str((folder / "stores").absolute())


def own_storage(folder: Path) -> Storage:
    """Where the workspace's own records are."""
    return open_storage(address_of(folder))


def begin(folder: Path) -> None:
    """Remove the outputs of an older invocation if another machine has worked there since.

    The holder of the workspace's lease calls it: the old outputs would replace newer ones in the
    bucket.
    """
    if not (folder / MARK).exists():
        return
    try:
        newest = digest(own_storage(folder).read("summary.json"))
    except FileNotFoundError:
        newest = None
    copied = _copied(folder)
    if newest is None or copied.get("summary.json") != newest or _missing(folder, copied):
        for name in (COPIED, *_files(folder)):
            remove(folder / name)


def write_out(folder: Path, name: str, data: bytes) -> None:
    """Write a file of the folder, and copy it to the bucket that the folder mirrors.

    No other command of this machine puts the bucket's older file in its place in between.
    """
    if not (folder / MARK).exists():
        replace_file(folder / name, data)
        return
    with _alone(folder):
        replace_file(folder / name, data)
        _copy_out(folder, [name])


def copy_out(folder: Path) -> None:
    """Copy all files that changed to the bucket that the folder mirrors.

    Not summary.json and results.json, which have moments of their own.
    """
    if (folder / MARK).exists():
        with _alone(folder):
            _copy_out(folder, _files(folder))


def _copy_out(folder: Path, names: list[str]) -> None:
    own, copied = own_storage(folder), _copied(folder)
    for name in names:
        sha256 = hash_file(folder / name)
        if copied.get(name) != sha256:
            check_fence(folder)
            own.replace(name, (folder / name).read_bytes())
            copied[name] = sha256
    _note_copied(folder, copied)


def remove_out(folder: Path, name: str) -> None:
    """Remove a file of the folder for good, in the bucket that the folder mirrors first."""
    own = own_storage(folder)
    if not (folder / MARK).exists():
        remove(folder / name)
        check_fence(folder)
        own.delete(name)  # with the folders that become empty
        sync(folder)
        return
    with _alone(folder):
        check_fence(folder)
        with suppress(FileNotFoundError):
            own.delete(name)
        remove(folder / name)
        _note_copied(folder, {n: sha256 for n, sha256 in _copied(folder).items() if n != name})


def _note_copied(folder: Path, copied: Mapping[str, str]) -> None:
    lines = (f"{copied[name]} {name}\n" for name in sorted(copied))
    replace_file(folder / COPIED, "".join(lines).encode())


def output_hash(folder: Path, name: str) -> str | None:
    """The SHA-256 of a file that an invocation wrote, in the bucket if the folder mirrors one.

    None if there is no such file.
    """
    if not (folder / MARK).exists():
        return hash_file(folder / name) if (folder / name).is_file() else None
    try:
        return digest(own_storage(folder).read(name))
    except FileNotFoundError:
        return None


def is_copied_out(folder: Path, name: str) -> bool:
    """Whether a file of the folder is part of the workspace; a mirror has files of its own too."""
    return not (folder / MARK).exists() or name.split("/")[0] not in _LOCAL


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait for other commands of this machine that read or write the mirror's files."""
    with (folder / LOCK).open("ab") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)  # until it is closed, or the process dies
        yield


def _missing(folder: Path, copied: Mapping[str, str]) -> bool:
    """Whether the bucket lacks a file that was copied: somebody deleted it, to have it again."""
    own = own_storage(folder)
    folders = {name.split("/")[0] for name in copied if "/" in name}
    standing = {name for part in sorted(folders) for name in own.names(part)}
    return any(name not in standing and not own.exists(name) for name in copied)


def _copied(folder: Path) -> dict[str, str]:
    noted = folder / COPIED
    lines = noted.read_text().splitlines() if noted.exists() else ()
    return {name: sha256 for sha256, _, name in (line.partition(" ") for line in lines)}


def _files(folder: Path) -> list[str]:
    names = (path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file())
    outputs = (name for name in names if name.parts[0] not in _LOCAL and name.suffix != ".tmp")
    return [name.as_posix() for name in outputs if name.as_posix() not in READ_FIRST[:3]]


def user_cache() -> Path:
    """The folder of what raypipe keeps for a user of this machine.

    Raises:
        InputError: the user has no home, as one of a container whose number has no name.
    """
    try:
        stated = Path(os.environ.get("XDG_CACHE_HOME", ""))  # a relative one is invalid: XDG 0.8
        return (stated if stated.is_absolute() else Path.home() / ".cache") / "raypipe"
    except RuntimeError as error:
        raise InputError(
            f"user {os.getuid()}: expected a home folder, found none; set HOME or XDG_CACHE_HOME"
        ) from error


def _home() -> Path:
    return user_cache() / "workspaces"
