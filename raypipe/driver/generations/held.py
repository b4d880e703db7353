"""The generations that an invocation builds on and reads, kept from retirement while it works."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from raypipe.storage.generations import Generation, held_generation, newest_generation
from raypipe.storage.storage import Storage


@contextmanager
def generations_held(
    stores: Storage, name: str, *, builds: bool, reading: tuple[str, int | None] | None
) -> Iterator[tuple[Generation | None, Generation | None]]:
    """The generation to build on and the one to read, held while the block runs.

    Args:
        stores: the root of the stores.
        name: of the line of generations that is built.
        builds: whether the next one is built; on none if it is the first.
        reading: name and number (None: the newest) of the one to read, if any.

    Raises:
        InputError: there is no such generation to read.
    """
    with ExitStack() as held:
        base = read = None
        if builds and newest_generation(stores, name) is not None:
            base = held.enter_context(held_generation(stores, name))
        if reading is not None:
            read = held.enter_context(held_generation(stores, *reading))
        yield base, read
