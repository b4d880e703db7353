"""Generations of an index: records that are created once; the newest is current.

    generations/NAME/0000007.json         its stores, by name, what is told of it, and whether a
                                          limit refused it: then it is never current
    generations/NAME/0000007.retired      it is about to be deleted, or was: no new reader may take
                                          it, and its number is never used again
    generations/NAME/0000007.readers/...  the leases of its readers
    generations/NAME/0000008.claims/...   the stores of one that is about to be created

Creation is exclusive. Whoever creates a generation, a refused one too, has read the next number
before anything else and creates that one or none, so of two that build on the same generation only
one succeeds, however long the other was paused.

The stores of a generation stay while somebody reads them: a reader creates its lease, then looks
for the mark; whoever deletes creates the mark, then looks for leases. So at least one of them sees
the other, whatever their clocks say.

The stores of one that is about to be created stay by its claim, which no other process removes
before its number is used: from then on it cannot be created.
"""

import errno
import re
import secrets
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

from raypipe.errors import CorruptError, InputError
from raypipe.storage.lease import acquire
from raypipe.storage.ledger import read_manifest
from raypipe.storage.records import (
    FORMAT,
    Count,
    Json,
    Place,
    Shape,
    check_shape,
    seal,
    unseal_format,
)
from raypipe.storage.storage import Storage
from raypipe.storage.store import Stored

ROOT = "generations"


@dataclass(frozen=True, slots=True)
class Generation:
    """One generation: an index with everything that it was made of."""

    name: str
    number: int
    stores: Mapping[str, str]
    """Store name -> fingerprint."""
    facts: Mapping[str, Json] = field(default_factory=dict)
    """When it was made and what changed, for `history`; they decide nothing."""
    refused: str | None = None
    """The limits that it is beyond, which kept it from becoming current."""

    def told(self) -> dict[str, Json]:
        """The number and facts, and why it was refused."""
        refused = {} if self.refused is None else {"refused": self.refused}
        return {"number": self.number, **refused, **self.facts}

    def stored(self, storage: Storage, store: str) -> Stored | None:
        """One of its stores; None if it has none of that name, or the store was deleted."""
        fingerprint = self.stores.get(store)
        manifest = None if fingerprint is None else read_manifest(storage, store, fingerprint)
        return None if manifest is None else Stored(storage, manifest)


def create_generation(storage: Storage, generation: Generation) -> bool:
    """Create the record; False if its number was used before, and nothing is changed."""
    name, number = generation.name, generation.number
    if not storage.create(_record(name, number), _sealed(generation)):
        return False
    if storage.exists(retired_name(name, number)):  # the record of that number was deleted
        storage.delete(_record(name, number))
        return False
    return True


@contextmanager
def claimed(storage: Storage, generation: Generation) -> Iterator[None]:
    """While the block runs, gc keeps the stores of a generation that is about to be created.

    The claim of a killed process keeps them until the number is used.
    """
    name = f"{claims_folder(generation.name, generation.number)}/{secrets.token_hex(8)}.json"
    storage.create(name, _sealed(generation))
    try:
        yield
    finally:
        with suppress(OSError):  # it is over once the number is used
            storage.delete(name)


def claims(storage: Storage) -> list[str]:
    """The names of all claims in a root of stores."""
    form = re.compile(rf"{ROOT}/[^/]+/\d{{7,}}\.claims/[0-9a-f]{{16}}\.json")
    return [file for file in storage.names(ROOT) if form.fullmatch(file)]


def claims_that_ended(storage: Storage) -> list[str]:
    """The claims on numbers that were used since, so that they keep nothing."""
    ended = []
    for claim in claims(storage):
        _, name, folder, _ = claim.split("/")
        if int(folder.partition(".")[0]) < next_number(storage, name):
            ended.append(claim)
    return ended


def next_number(storage: Storage, name: str) -> int:
    """One more than the highest number that a generation ever had, a refused one too."""
    return max(_numbers(storage, name, r"(\d{7,})\.(?:json|retired)"), default=0) + 1


def record_numbers(storage: Storage, name: str) -> list[int]:
    """The numbers of the generations that are not retired, refused ones too, ascending.

    The folder is listed: a record is there whole or not at all, and numbers may be missing.
    """
    retired = set(_numbers(storage, name, r"(\d{7,})\.retired"))
    return [n for n in _numbers(storage, name, r"(\d{7,})\.json") if n not in retired]


def generation_numbers(storage: Storage, name: str) -> list[int]:
    """The numbers of the generations that are neither retired nor refused, ascending.

    Their records are read; a damaged one counts, since nobody knows that it was refused.
    """
    numbers = []
    for number in record_numbers(storage, name):
        try:
            if _read(storage, name, number).refused is not None:
                continue
        except FileNotFoundError:
            continue  # deleted since
        except CorruptError:
            pass
        numbers.append(number)
    return numbers


def standing_generations(storage: Storage, name: str) -> list[Generation]:
    """The generations that are not retired, refused ones too, ascending.

    Raises:
        CorruptError: a record is damaged.
    """
    generations = []
    for number in record_numbers(storage, name):
        with suppress(FileNotFoundError):  # deleted since
            generations.append(_read(storage, name, number))
    return generations


def refused_since(storage: Storage, name: str, current: Generation | None) -> list[Generation]:
    """The refused generations that are newer than the current one, ascending."""
    least = 0 if current is None else current.number
    generations = []
    for number in record_numbers(storage, name):
        if number > least:
            with suppress(FileNotFoundError):
                generations.append(_read(storage, name, number))
    return [each for each in generations if each.refused is not None]


def read_generation(storage: Storage, name: str, number: int) -> Generation:
    """A generation that is neither retired nor refused.

    Raises:
        InputError: there is none of this number; the message names those that there are.
        CorruptError: its record is damaged.
    """
    generation = _standing(storage, name, number)
    if generation is not None and generation.refused is None:
        return generation
    if generation is not None:
        why = (
            "it was refused and never became current; `raypipe reindex RECIPE --out DIR --accept "
            f"{number}` publishes it"
        )
    else:
        why = no_record(storage, name, number)
    standing = ", ".join(map(str, generation_numbers(storage, name))) or "none"
    raise InputError(f"generation {number} of {name}: {why}; there are: {standing}")


def refused_generation(storage: Storage, name: str, number: int) -> Generation:
    """A refused generation that is not retired.

    Raises:
        InputError: there is none of this number; the message names those that there are.
        CorruptError: its record is damaged.
    """
    generation = _standing(storage, name, number)
    if generation is not None and generation.refused is not None:
        return generation
    why = no_record(storage, name, number) if generation is None else "it was not refused"
    refused = [str(g.number) for g in standing_generations(storage, name) if g.refused is not None]
    raise InputError(
        f"generation {number} of {name}: {why}; refused are: {', '.join(refused) or 'none'}"
    )


def no_record(storage: Storage, name: str, number: int) -> str:
    """Why there is no generation of a number: it was retired, or there never was one."""
    if 0 < number < next_number(storage, name):
        return "it is gone, retired by `--keep` or deleted"
    return "no such generation"


def _standing(storage: Storage, name: str, number: int) -> Generation | None:
    """The generation of this number, refused or not; None if it is retired or there is none."""
    try:
        if number < 0 or storage.exists(retired_name(name, number)):
            return None
        return _read(storage, name, number)
    except FileNotFoundError:
        return None


def newest_generation(storage: Storage, name: str) -> Generation | None:
    """The current generation; None before the first one."""
    while True:
        try:
            for number in reversed(record_numbers(storage, name)):
                generation = _read(storage, name, number)
                if generation.refused is None:
                    return generation
            return None
        except FileNotFoundError:
            continue  # deleted since; a newer one stands


def retire(storage: Storage, name: str, number: int) -> None:
    """Mark a generation, so that no new reader takes it and its number is never used again."""
    storage.create(retired_name(name, number), seal({"format": FORMAT}))


def retired_numbers(storage: Storage, name: str) -> list[int]:
    """The numbers of the generations that are marked, deleted or not, ascending."""
    return _numbers(storage, name, r"(\d{7,})\.retired")


def undeleted_numbers(storage: Storage, name: str) -> list[int]:
    """The marked numbers of which more is left than the mark, ascending."""
    left = {*_numbers(storage, name, r"(\d{7,})\.(?:json|readers/.*)")}
    return [number for number in retired_numbers(storage, name) if number in left]


def generation_files(storage: Storage, name: str, number: int) -> list[str]:
    """A retired generation's files in the order of deletion; the mark stays."""
    record = _record(name, number)
    return [
        *([record] if storage.exists(record) else []),
        *storage.names(readers_folder(name, number)),
    ]


def generation_names(storage: Storage) -> list[str]:
    """The names of all lines of generations in a root of stores."""
    return sorted({file.split("/")[1] for file in storage.names(ROOT) if file.count("/") > 1})


def none_yet(storage: Storage, name: str) -> str:
    """The message where a line has no generation; another recipe may have run in between."""
    others = [other for other in generation_names(storage) if generation_numbers(storage, other)]
    if not others:
        return f"{name}: no generation yet; `raypipe reindex` makes the first one"
    return (
        f"{name}: no generation of the recipe that ran last; these stores have some of "
        f"{', '.join(others)}. Run that recipe here again to go on with them"
    )


def generation_records(storage: Storage) -> list[str]:
    """Names of the records of all generations in a root of stores, refused ones too."""
    form = re.compile(rf"{ROOT}/[^/]+/\d{{7,}}\.json")
    return [file for file in storage.names(ROOT) if form.fullmatch(file)]


def stores_of_record(storage: Storage, record: str) -> set[tuple[str, str]]:
    """(store, fingerprint) of all that a record names; empty if it is gone."""
    try:
        return set(_body(storage, record)["stores"].items())
    except FileNotFoundError:
        return set()


def held_stores(storage: Storage, leaving: Collection[str] = ()) -> set[tuple[str, str]]:
    """(store, fingerprint) of all that generations, refused ones and claims name.

    `leaving` are names of records and claims that do not count: they are about to be deleted.
    """
    # Claims first: of one that ends meanwhile the record is there.
    return {
        store
        for files in (claims, generation_records)
        for file in files(storage)
        if file not in leaving
        for store in stores_of_record(storage, file)
    }


def _sealed(generation: Generation) -> bytes:
    stores, facts = dict(generation.stores), dict(generation.facts)
    body = {"format": FORMAT, "name": generation.name, "number": generation.number}
    refused = {} if generation.refused is None else {"refused": generation.refused}
    return seal({**body, "stores": stores, "facts": facts, **refused})


def _read(storage: Storage, name: str, number: int) -> Generation:
    file = _record(name, number)
    body = _body(storage, file)
    if (body["name"], body["number"]) != (name, number):
        raise CorruptError(
            f"{file}: expected generation {number} of {name}, found generation {body['number']} "
            f"of {body['name']}; it belongs elsewhere. Delete this one file"
        )
    return Generation(name, number, body["stores"], body["facts"], body.get("refused"))


class _GenerationShape(Shape):
    name: str
    number: Count
    stores: dict[Place, Place]
    facts: dict[str, Json]
    refused: str | None = None


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


def claims_folder(name: str, number: int) -> str:
    """Where the claims on a number are."""
    return f"{ROOT}/{name}/{number:07d}.claims"


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
        generation = newest_generation(storage, name) if number is None else None
        if number is not None:
            generation = read_generation(storage, name, number)
        if generation is None:
            raise InputError(none_yet(storage, name))
        label = f"{readers_folder(name, generation.number)}/{secrets.token_hex(8)}.json"
        try:
            lease = acquire(storage, label)
        except OSError as error:
            if error.errno not in _MAY_NOT_WRITE:
                raise
            yield generation
            return
        try:
            if storage.exists(retired_name(name, generation.number)):
                continue  # retired since; the newest is another, and a named one is refused
            yield generation
            return
        finally:
            lease.release()
            _remove(storage, readers_folder(name, generation.number), label)


def reader_leases(storage: Storage, name: str, number: int) -> list[str]:
    """Names of the leases of a generation's readers, alive or not."""
    claim = re.compile(r"(.*/[0-9a-f]{16}\.json)\.d/\d+\.json")
    matches = (claim.fullmatch(file) for file in storage.names(readers_folder(name, number)))
    return sorted({match[1] for match in matches if match})


def _remove(storage: Storage, folder: str, label: str) -> None:
    for file in list(storage.names(folder)):
        if file.startswith(label):
            storage.delete(file)


@contextmanager
def generations_held(
    stores: Storage, name: str, *, builds: bool, reading: tuple[str, int | None] | None
) -> Iterator[tuple[int, Generation | None, Generation | None]]:
    """The next number, the generation to build on and the one to read, held while the block runs.

    Args:
        stores: the root of the stores.
        name: of the line of generations that is built.
        builds: whether the next one is built; on none if it is the first.
        reading: name and number (None: the newest) of the one to read, if any.

    Raises:
        InputError: there is no such generation to read.
    """
    number = next_number(stores, name)  # first: who publishes from here on takes it
    with ExitStack() as stack:
        base = read = None
        if builds and newest_generation(stores, name) is not None:
            base = stack.enter_context(held_generation(stores, name))
        if reading is not None:
            read = stack.enter_context(held_generation(stores, *reading))
        yield number, base, read
