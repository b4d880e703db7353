"""The format of a root of stores, written before anything else in it."""

from raypipe.errors import CorruptError
from raypipe.storage.records import FORMAT, seal, unseal_format
from raypipe.storage.storage import Storage

ROOT_FORMAT = "format.json"


def check_root(stores: Storage) -> None:
    """Nothing, where the root is new or has this format; a new one is marked with it.

    Where the mark is missing or damaged, the refs of the workspaces tell the format: no root has
    stores without them.

    Raises:
        InputError: another version of raypipe made its stores, in another format; nothing is
            changed.
        CorruptError: the mark and a ref are damaged.
    """
    if root_problem(stores) is None:
        return
    for name in stores.names("refs"):
        unseal_format(name, stores.read(name))
    stores.create(ROOT_FORMAT, seal({"format": FORMAT}))


def root_problem(stores: Storage) -> str | None:
    """What is wrong with the mark, None where nothing is.

    Raises:
        InputError: it tells another format.
    """
    try:
        unseal_format(ROOT_FORMAT, stores.read(ROOT_FORMAT))
    except FileNotFoundError:
        return f"{ROOT_FORMAT}: missing"
    except CorruptError as error:
        return str(error)
    return None
