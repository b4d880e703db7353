"""Opens the storage of a URI."""

from pathlib import Path

from raypipe.errors import InputError
from raypipe.storage.places.posix import PosixStorage
from raypipe.storage.storage import Storage


def open_storage(uri: str) -> Storage:
    """The storage of a URI: a plain path, `file://`, `s3://` or `gs://`.

    Raises:
        InputError: the scheme is unknown, or its package is not installed.
    """
    scheme, separator, rest = uri.partition("://")
    if not separator or scheme == "file":
        return PosixStorage(Path(rest if separator else uri).absolute())
    if scheme in ("s3", "gs"):
        from raypipe.storage.places.bucket import BucketStorage  # fsspec is not loaded for a folder

        return BucketStorage(uri)
    raise InputError(
        f"stores: {uri}: expected a path or file://, s3://, gs://, found the scheme {scheme!r}"
    )
