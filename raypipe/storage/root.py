"""A root of stores: opened by its URI, with a format file written before its first store."""

from pathlib import Path

from raypipe.errors import CorruptError, InputError
from raypipe.regular import check_folder
from raypipe.storage.posix import PosixStorage
from raypipe.storage.records import FORMAT, seal, unseal_format
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
        from raypipe.storage.bucket import BucketStorage  # fsspec is not loaded for a folder

        return BucketStorage(uri)
    raise InputError(
        f"stores: {uri}: expected a path or file://, s3://, gs://, found the scheme {scheme!r}"
    )


ROOT_FORMAT = "format.json"


def check_root(stores: Storage) -> None:
    """Returns nothing if the root is new or has this format.

    If the format file is missing or damaged, the refs of the workspaces show the format: no root
    has stores without refs.

    Raises:
        InputError: another version of raypipe made its stores, in another format.
        CorruptError: the format file and a ref are damaged.
    """
    if _problem(stores) is not None:
        for name in stores.names("refs"):
            unseal_format(name, stores.read(name))


def mark_root(stores: Storage) -> None:
    """Write the format file if it does not exist."""
    if not stores.exists(ROOT_FORMAT):
        stores.create(ROOT_FORMAT, seal({"format": FORMAT}))


def root_damage(stores: Storage) -> str | None:
    """The problem with the format file of a root that has stores; None if there is none."""
    problem = _problem(stores)
    return problem if problem is not None and any(True for _ in stores.names("refs")) else None


def _problem(stores: Storage) -> str | None:
    try:
        unseal_format(ROOT_FORMAT, stores.read(ROOT_FORMAT))
    except FileNotFoundError:
        return f"{ROOT_FORMAT}: expected the root's format, found no such file"
    except CorruptError as error:
        return str(error)
    return None
