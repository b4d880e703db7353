"""Generations of an index: records that are created once; the newest is current.

    generations/NAME/0000007.json          its stores, by name, and what is told of it
    generations/NAME/0000007.retired       it is about to be deleted: no new reader may take it
    generations/NAME/0000007.readers/...   the leases of its readers
    generations/NAME/refused/0000008.json  what a limit kept from becoming a generation

Creation is exclusive: whoever builds on generation n creates n+1, and of two only one succeeds.

The stores of a generation stay while somebody reads them: a reader creates its lease, then looks
for the mark; whoever deletes creates the mark, then looks for leases. So at least one of them sees
the other, whatever their clocks say.
"""

import errno
import re
import secrets
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from raypipe.errors import CorruptError, InputError
from raypipe.shapes import Count, Place, Shape, check_shape
from raypipe.storage.lease import acquire
from raypipe.storage.ledger import read_manifest
from raypipe.storage.records import FORMAT, Json, seal, unseal_format
from raypipe.storage.storage import Storage
from raypipe.storage.store import Stored

ROOT = "generations"
REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Generation:
    """One generation: an index with everything that it was made of."""

    name: str
    number: int
    stores: Mapping[str, str]
    """Store name -> fingerprint."""
    facts: Mapping[str, Json] = field(default_factory=dict)
    """When it was made and what changed, for `history`; they decide nothing."""

    def stored(self, storage: Storage, store: str) -> Stored | None:
        """One of its stores; None if it has none of that name, or the store was deleted."""
        fingerprint = self.stores.get(store)
        manifest = None if fingerprint is None else read_manifest(storage, store, fingerprint)
        return None if manifest is None else Stored(storage, manifest)


def create_generation(storage: Storage, generation: Generation) -> bool:
    """Create the record; False if there is one of this number, and nothing is changed."""
    return storage.create(_record(generation.name, generation.number), _sealed(generation))


def refuse_generation(storage: Storage, generation: Generation) -> None:
    """Keep what would have become a generation; what was refused before it under this number goes.

    Its stores are kept until it is accepted, or refused again under the same number, or until
    `retire_older` forgets it.
    """
    storage.replace(_refused(generation.name, generation.number), _sealed(generation))


def refused_generation(storage: Storage, name: str, number: int) -> Generation | None:
    """What was refused under this number; None if nothing was, or it was accepted."""
    try:
        return _read(storage, _refused(name, number), name, number)
    except FileNotFoundError:
        return None


def refused_numbers(storage: Storage, name: str) -> list[int]:
    """The numbers under which something was refused, ascending."""
    return _numbers(storage, name, rf"{REFUSED}/(\d{{7,}})\.json")


def forget_refused(storage: Storage, name: str, numbers: Collection[int]) -> None:
    """Remove what was refused under these numbers; its stores are then no longer kept for it."""
    for number in refused_numbers(storage, name):
        if number in numbers:
            storage.delete(_refused(name, number))


def generation_numbers(storage: Storage, name: str) -> list[int]:
    """The numbers of the generations that are not retired, ascending.

    The folder is listed: a record is there whole or not at all, and numbers may be missing.
    """
    retired = set(_numbers(storage, name, r"(\d{7,})\.retired"))
    return [n for n in _numbers(storage, name, r"(\d{7,})\.json") if n not in retired]


def read_generation(storage: Storage, name: str, number: int) -> Generation:
    """A generation that is not retired.

    Raises:
        InputError: there is none of this number; the message names those that there are.
        CorruptError: its record is damaged.
    """
    try:
        if not storage.exists(retired_name(name, number)):
            return _read(storage, _record(name, number), name, number)
    except FileNotFoundError:
        pass
    standing = ", ".join(map(str, generation_numbers(storage, name))) or "none"
    raise InputError(f"generation {number} of {name}: no such generation; there are: {standing}")


def newest_generation(storage: Storage, name: str) -> Generation | None:
    """The current generation; None before the first one."""
    while True:
        numbers = generation_numbers(storage, name)
        if not numbers:
            return None
        try:
            return _read(storage, _record(name, numbers[-1]), name, numbers[-1])
        except FileNotFoundError:
            continue  # deleted since; a newer one stands


def retire(storage: Storage, name: str, number: int) -> None:
    """Mark a generation, so that no new reader takes it."""
    storage.create(retired_name(name, number), seal({"format": FORMAT}))


def retired_numbers(storage: Storage, name: str) -> list[int]:
    """The numbers of the generations that are marked but not deleted, ascending."""
    return _numbers(storage, name, r"(\d{7,})\.retired")


def generation_files(storage: Storage, name: str, number: int) -> list[str]:
    """A retired generation's files in the order of deletion; the mark goes last."""
    readers = list(storage.names(readers_folder(name, number)))
    files = [_record(name, number), *readers, retired_name(name, number)]
    return [file for file in files if file in readers or storage.exists(file)]


def generation_names(storage: Storage) -> list[str]:
    """The names of all lines of generations in a root of stores."""
    return sorted({file.split("/")[1] for file in storage.names(ROOT) if file.count("/") > 1})


def none_yet(storage: Storage, name: str) -> str:
    """What to tell where a line has no generation; another recipe may have run in between."""
    others = [other for other in generation_names(storage) if generation_numbers(storage, other)]
    if not others:
        return f"{name}: no generation yet; `raypipe reindex` makes the first one"
    return (
        f"{name}: no generation of the recipe that ran last; these stores have some of "
        f"{', '.join(others)}. Run that recipe here again to go on with them"
    )


def generation_records(storage: Storage) -> list[str]:
    """Names of the records of all generations and refused ones in a root of stores."""
    form = re.compile(rf"{ROOT}/[^/]+/({REFUSED}/)?\d{{7,}}\.json")
    return [file for file in storage.names(ROOT) if form.fullmatch(file)]


def stores_of_record(storage: Storage, record: str) -> set[tuple[str, str]]:
    """(store, fingerprint) of all that a record names; empty if it is gone."""
    try:
        return set(_body(storage, record)["stores"].items())
    except FileNotFoundError:
        return set()


def held_stores(storage: Storage, leaving: Collection[str] = ()) -> set[tuple[str, str]]:
    """(store, fingerprint) of all that generations and refused ones name.

    `leaving` are names of records that do not count: they are about to be deleted.
    """
    kept = [record for record in generation_records(storage) if record not in leaving]
    return {store for record in kept for store in stores_of_record(storage, record)}


def _sealed(generation: Generation) -> bytes:
    stores, facts = dict(generation.stores), dict(generation.facts)
    body = {"format": FORMAT, "name": generation.name, "number": generation.number}
    return seal({**body, "stores": stores, "facts": facts})


def _read(storage: Storage, file: str, name: str, number: int) -> Generation:
    body = _body(storage, file)
    if (body["name"], body["number"]) != (name, number):
        raise CorruptError(
            f"{file}: expected generation {number} of {name}, found generation {body['number']} "
            f"of {body['name']}; it belongs elsewhere. Delete this one file"
        )
    return Generation(name, number, body["stores"], body["facts"])


class _GenerationShape(Shape):
    name: str
    number: Count
    stores: dict[Place, Place]
    facts: dict[str, Json]


def _body(storage: Storage, file: str) -> dict[str, Json]:
    body = unseal_format(file, storage.read(file))
    check_shape(file, body, _GenerationShape)
    return body


def _numbers(storage: Storage, name: str, form: str) -> list[int]:
    folder = f"{ROOT}/{name}/"
    inner = (file.removeprefix(folder) for file in storage.names(f"{ROOT}/{name}"))
    return sorted(int(m[1]) for m in (re.fullmatch(form, file) for file in inner) if m)


def _record(name: str, number: int) -> str:
    return f"{ROOT}/{name}/{number:07d}.json"


def retired_name(name: str, number: int) -> str:
    """The mark of a generation that is about to be deleted."""
    return f"{ROOT}/{name}/{number:07d}.retired"


def readers_folder(name: str, number: int) -> str:
    """Where a generation's readers leave their leases."""
    return f"{ROOT}/{name}/{number:07d}.readers"


def _refused(name: str, number: int) -> str:
    return f"{ROOT}/{name}/{REFUSED}/{number:07d}.json"


_MAY_NOT_WRITE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT)


@contextmanager
def held_generation(storage: Storage, name: str, number: int | None = None) -> Iterator[Generation]:
    """A generation (None: the newest) whose stores stay while the block runs.

    A reader that cannot write leaves no lease; it relies on the number of kept generations and on
    the hours that gc spares new files.

    Raises:
        InputError: no such generation, or it is retired.
    """
    while True:
        found = newest_generation(storage, name) if number is None else None
        if number is not None:
            found = read_generation(storage, name, number)
        if found is None:
            raise InputError(none_yet(storage, name))
        label = f"{readers_folder(name, found.number)}/{secrets.token_hex(8)}.json"
        try:
            lease = acquire(storage, label)
        except OSError as error:
            if error.errno not in _MAY_NOT_WRITE:
                raise
            yield found
            return
        try:
            if storage.exists(retired_name(name, found.number)):
                continue  # retired since; the newest is another, and a named one is refused
            yield found
            return
        finally:
            lease.release()
            _remove(storage, readers_folder(name, found.number), label)


def reader_leases(storage: Storage, name: str, number: int) -> list[str]:
    """Names of the leases of a generation's readers, alive or not."""
    claim = re.compile(r"(.*/[0-9a-f]{16}\.json)\.d/\d+\.json")
    found = (claim.fullmatch(file) for file in storage.names(readers_folder(name, number)))
    return sorted({match[1] for match in found if match})


def _remove(storage: Storage, folder: str, label: str) -> None:
    for file in list(storage.names(folder)):
        if file.startswith(label):
            storage.delete(file)


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
