"""The format of a root of stores, written before its first store."""

from raypipe.errors import CorruptError
from raypipe.storage.records import FORMAT, seal, unseal_format
from raypipe.storage.storage import Storage

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
