"""Input files in a bucket: read from copies beside the workspace, fetched again when they change.

A copy lies at INPUTS/DIGEST/NAME. The digest is that of the object's address, size and ETag, so a
changed object has another copy. A copy has the MD5 that the bucket tells, or was given twice: the
ETag is no MD5 where a bucket encrypts with a key of one's own. The bucket tells no MD5 of an object
that was written in parts, and what was given is taken.

Errors of a bucket's libraries mean a wrong setting, or storage that failed.
"""

import base64
import errno
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from raypipe.errors import LEAVE_INPUTS, InputError, RaypipeError, StorageError, first_line
from raypipe.storage.files import remove, replace_file, taking_the_place
from raypipe.storage.records import digest, hash_file

_LIBRARIES = {"aiobotocore", "aiohttp", "botocore", "gcsfs", "google", "requests"}
_CREDENTIALS = ("Credential", "Token", "Profile", "RefreshError")
"""Parts of the names of the libraries' errors about who asks."""
_UNREACHABLE = {
    "ClientConnectionError",
    "ClientError",
    "ClientPayloadError",
    "ConnectionError",
    "HTTPClientError",
    "HttpError",
    "IncompleteReadError",
    "RequestException",
    "TransportError",
}
"""Errors, or bases of errors, about an answer that did not come or that is no answer."""


class ConflictError(StorageError):
    """Another request about the same name was under way; the same one may succeed in a moment."""


class NotAllowedError(InputError, PermissionError):
    """The credentials may not do this there: an OSError with EACCES, as a folder gives."""

    def __init__(self, problems: str | Sequence[str]) -> None:
        super().__init__(problems)
        self.errno = errno.EACCES


class CheckedFileSystem:
    """A file system whose methods raise raypipe's errors; see `bucket_errors`."""

    def __init__(self, filesystem: Any, uri: str) -> None:
        """Asks nothing yet."""
        self._filesystem, self._uri = filesystem, uri

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._filesystem, name)

        def asked(*arguments: Any, **settings: Any) -> Any:
            with bucket_errors(self._uri, writes=name in ("pipe_file", "put_file")):
                return method(*arguments, **settings)

        return asked


def open_filesystem(uri: str, whose: str = "") -> tuple[CheckedFileSystem, str]:
    """The file system of a URI, and its root there; `whose` begins the message.

    Raises:
        InputError: the scheme's package is not installed, or see `bucket_errors`.
    """
    import fsspec  # only where something is in a bucket

    try:
        with bucket_errors(uri):
            filesystem, root = fsspec.core.url_to_fs(uri)
    except ImportError as error:
        extra = uri.partition("://")[0].replace("gs", "gcs")
        raise InputError(
            f"{whose}{uri}: {error}; install with `pip install 'raypipe[{extra}]'`"
        ) from error
    return CheckedFileSystem(filesystem, uri), root


@contextmanager
def bucket_errors(uri: str, *, writes: bool = False) -> Iterator[None]:
    """Turns the libraries' errors into raypipe's; other errors pass.

    `writes`: nothing that a write needs can be missing, except the bucket.

    Raises:
        FileExistsError: a conditional put found the name taken.
        ConflictError: another request about the same name was under way.
        InputError: there is no such bucket, no credentials or no permission, or a setting is wrong.
        StorageError: the bucket did not answer, or not as a bucket does.
    """
    try:
        yield
    except Exception as error:
        meaning = _meaning(uri, error, writes)
        if meaning is None:
            raise
        raise meaning from error


def _meaning(uri: str, error: Exception, writes: bool) -> Exception | None:
    """The error to raise instead; None if this one has a meaning of its own."""
    kinds = [kind.__name__ for kind in type(error).__mro__]
    message = f"stores: {uri}: {first_line(error)} ({kinds[0]})"
    if isinstance(error, RaypipeError | FileExistsError):
        return None
    if _code(error) in ("PreconditionFailed", "412"):  # where no answer says which condition
        return FileExistsError(message)
    if _code(error) in ("ConditionalRequestConflict", "409"):
        return ConflictError(f"{message}; run the same command again")
    if isinstance(error, FileNotFoundError):
        if writes or _code(error) == "NoSuchBucket":
            return InputError(
                f"{message}; expected a bucket that exists: create it or name another"
            )
        return None
    if isinstance(error, PermissionError) or any(word in kinds[0] for word in _CREDENTIALS):
        return NotAllowedError(
            f"{message}; expected credentials that may read, write and list there: for s3:// "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile; for gs:// "
            "GOOGLE_APPLICATION_CREDENTIALS"
        )
    if isinstance(error, OSError):
        local = error.errno is not None and error.filename is not None
        return None if local else _unreachable(message)
    if type(error).__module__.partition(".")[0] not in _LIBRARIES:
        return None
    if _UNREACHABLE.isdisjoint(kinds):
        return InputError(f"{message}; correct `stores` or the setting that this names")
    return _unreachable(message)


def _unreachable(message: str) -> StorageError:
    return StorageError(f"{message}; run the same command again once the bucket answers")


def _code(error: Exception) -> str | None:
    """The service's own code of an error that the file system translated."""
    response: Any = getattr(error.__cause__, "response", None)
    return response.get("Error", {}).get("Code") if isinstance(response, dict) else None


_HASH = ".sha256"


def copied(
    uri: str, folder: Path, is_aside: Callable[[str], object] = lambda name: False
) -> dict[Path, str]:
    """The verified copies of an object, or of the objects directly under a prefix, and their URIs.

    As in a folder, names that begin with a point or an underscore are left out.

    Args:
        uri: the object or the prefix.
        folder: where the copies are.
        is_aside: whether an object or a prefix of this name stands beside a collection, and is no
            part of it.

    Raises:
        InputError: nothing is there, a prefix has others below or objects that are no part of the
            collection, it changed while it was fetched, or see `bucket_errors`.
        StorageError: its bytes arrived damaged, twice.
    """
    filesystem, root = _opened(uri)
    copies: dict[Path, str] = {}
    for key in _keys(filesystem, root, uri, is_aside):
        scheme = uri.partition("://")[0]
        copies[_copy(filesystem, key, folder)] = f"{scheme}://{key}"
    return copies


def on_this_node(file: Path, sources: Mapping[str, str], scratch: Path) -> Path:
    """The file itself; on a node that does not share its folder, a copy made for this worker.

    Whoever reads it compares its bytes with those that were counted.
    """
    uri = sources.get(str(file))
    if uri is None or file.exists():
        return file
    own = scratch / f"inputs-{digest(uri.encode())[:16]}" / file.name
    if not own.exists():
        filesystem, key = _opened(uri)
        _fetch(filesystem, key, own)
    return own


def forget_others(folder: Path, kept: Iterable[Path]) -> None:
    """Remove the copies of what is no longer an input, or has changed."""
    standing = {copy.parent for copy in kept}
    for path in folder.iterdir() if folder.is_dir() else ():
        if path not in standing:
            remove(path)


def _opened(uri: str) -> tuple[Any, str]:
    filesystem, root = open_filesystem(uri)
    filesystem.invalidate_cache()
    return filesystem, root.rstrip("/")


def _keys(filesystem: Any, root: str, uri: str, is_aside: Callable[[str], object]) -> list[str]:
    """The object itself, or those directly under the prefix."""
    try:
        entries = filesystem.ls(root, detail=True)
    except FileNotFoundError as error:
        raise InputError(f"{uri}: no such object and nothing under it") from error
    types = {str(entry["name"]).rstrip("/"): entry["type"] for entry in entries}
    if types.get(root) == "file":
        return [root]
    names = {key: key.rpartition("/")[2] for key in sorted(types) if key != root}
    names = {key: name for key, name in names.items() if name[:1] not in ("", ".", "_")}
    files = [key for key in names if types[key] == "file"]
    if not files:
        raise InputError(f"{uri}: expected objects directly under it, found only deeper ones")
    aside = {key: bool(is_aside(name)) for key, name in names.items()}
    for key in names:
        if types[key] != "file" and not aside[key]:
            raise InputError(
                f"{uri}: {names[key]}/ is a prefix under it, which is not read; name the objects "
                "and prefixes that are the collection, each of them"
            )
    if strange := [names[key] for key in files if aside[key]]:
        if len(strange) < len(files):
            raise InputError(
                f"{uri}: {strange[0]} is under it, which seems to be no part of the collection; "
                "name the objects that are, each of them"
            )
    return files


def _copy(filesystem: Any, key: str, folder: Path) -> Path:
    before, md5 = _version(filesystem, key)
    copy = folder / digest(f"{key} {before}".encode())[:32] / key.rpartition("/")[2]
    note = copy.with_name(_HASH)
    if copy.exists() and note.exists() and hash_file(copy) == note.read_text():
        return copy
    remove(note)
    _fetch(filesystem, key, copy)
    if md5 and hash_file(copy, "md5") != md5:
        first = hash_file(copy)
        _fetch(filesystem, key, copy)
        if hash_file(copy, "md5") != md5 and hash_file(copy) != first:
            raise StorageError(
                f"{key}: its bytes arrived damaged: expected their MD5 {md5}, found two others; "
                "run the same command again"
            )
    if _version(filesystem, key)[0] != before:
        raise InputError(f"{key}: it was written while it was fetched. {LEAVE_INPUTS}")
    replace_file(note, hash_file(copy).encode())
    return copy


def _version(filesystem: Any, key: str) -> tuple[str, str]:
    """A text that changes with an object's bytes, and its MD5.

    The text is its ETag and size, with its time in place of an ETag that is missing. The MD5 is
    empty where the bucket tells none.
    """
    filesystem.invalidate_cache()
    info = filesystem.info(key)
    etag = str(info.get("ETag") or info.get("etag") or written(info))
    md5 = base64.b64decode(info.get("md5Hash", "")).hex() or etag.strip('"')
    return f"{etag} {info['size']}", md5 if re.fullmatch("[0-9a-f]{32}", md5) else ""


def _fetch(filesystem: Any, key: str, target: Path) -> None:
    with taking_the_place(target) as beside:
        filesystem.get_file(key, str(beside))


def written(info: Mapping[str, Any]) -> float:
    """When an object was written: s3fs, gcsfs and fsspec's memory have a key each."""
    date: datetime = next(info[key] for key in ("LastModified", "mtime", "created") if key in info)
    return date.timestamp()
