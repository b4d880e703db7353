"""What the errors of a bucket's libraries mean: a wrong setting, or storage that failed."""

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from raypipe.errors import InputError, RaypipeError, StorageError, first_line

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


class Asked:
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
        found = _meaning(uri, error, writes)
        if found is None:
            raise
        raise found from error


def _meaning(uri: str, error: Exception, writes: bool) -> Exception | None:
    """The error to raise instead; None if this one has a meaning of its own."""
    kinds = [kind.__name__ for kind in type(error).__mro__]
    told = f"stores: {uri}: {first_line(error)} ({kinds[0]})"
    if isinstance(error, RaypipeError | FileExistsError):
        return None
    if _code(error) in ("PreconditionFailed", "412"):  # where no answer says which condition
        return FileExistsError(told)
    if _code(error) in ("ConditionalRequestConflict", "409"):
        return ConflictError(f"{told}; run the same command again")
    if isinstance(error, FileNotFoundError):
        if writes or _code(error) == "NoSuchBucket":
            return InputError(f"{told}; expected a bucket that exists: create it or name another")
        return None
    if isinstance(error, PermissionError) or any(word in kinds[0] for word in _CREDENTIALS):
        return NotAllowedError(
            f"{told}; expected credentials that may read, write and list there: for s3:// "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile; for gs:// "
            "GOOGLE_APPLICATION_CREDENTIALS"
        )
    if isinstance(error, OSError):
        local = error.errno is not None and error.filename is not None
        return None if local else _unreachable(told)
    if type(error).__module__.partition(".")[0] not in _LIBRARIES:
        return None
    if _UNREACHABLE.isdisjoint(kinds):
        return InputError(f"{told}; correct `stores` or the setting that this names")
    return _unreachable(told)


def _unreachable(told: str) -> StorageError:
    return StorageError(f"{told}; run the same command again once the bucket answers")


def _code(error: Exception) -> str | None:
    """The service's own code of an error that the file system translated."""
    response: Any = getattr(error.__cause__, "response", None)
    return response.get("Error", {}).get("Code") if isinstance(response, dict) else None
