"""Opens the storage of a URI."""

from pathlib import Path

from raypipe.errors import InputError
from raypipe.regular import check_folder
from raypipe.storage.places.posix import PosixStorage
from raypipe.storage.storage import Storage
from raypipe.uris import NO_SECRETS, has_secret, redacted


def open_storage(uri: str) -> Storage:
    """The storage of a URI: a plain path, `file://`, `s3://` or `gs://`.

    Raises:
        InputError: the scheme is unknown, its package is not installed, the URI has credentials,
            or a file is in the place of the folder.
    """
    if has_secret(uri):
        raise InputError(f"stores: {redacted(uri)}: expected {NO_SECRETS}")
    scheme, separator, rest = uri.partition("://")
    if not separator or scheme == "file":
        root = Path(rest if separator else uri).absolute()
        check_folder(root, "stores: ")
        return PosixStorage(root)
    if scheme in ("s3", "gs"):
        from raypipe.storage.places.bucket import BucketStorage  # fsspec is not loaded for a folder

        return BucketStorage(uri)
    raise InputError(
        f"stores: {uri}: expected a path or file://, s3://, gs://, found the scheme {scheme!r}"
    )
