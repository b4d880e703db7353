"""What the storage says of a lease: who holds it, and whether that holder renews it.

Generation n of a lease is the exclusive creation of `NAME.d/n.json`, its claim, with the holder's
identity; `NAME` itself is replaced every few seconds, with a counter, the processes that work for
the holder, and whether the lease was released.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from raypipe.errors import CorruptError
from raypipe.shapes import Count, Shape, check_shape
from raypipe.storage.holder import Life, Process, ProcessShape
from raypipe.storage.records import Json, unseal
from raypipe.storage.storage import Storage

WATCH_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class LeaseState:
    """A lease in the storage: its newest generation, holder and last renewal."""

    generation: int
    holder: Process
    counter: int
    processes: tuple[Process, ...]
    released: bool

    def life(self) -> Life:
        """Whether the holder is alive; a released lease counts as dead."""
        return Life.DEAD if self.released else self.holder.life()


def renews(storage: Storage, name: str, *, seconds: float = WATCH_SECONDS) -> bool:
    """Whether the holder of a lease renews it within so many seconds of this process's clock."""
    first, deadline = lease_state(storage, name), time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(min(0.5, seconds / 10))
        now = lease_state(storage, name)
        if now != first:
            return now is not None and not now.released
    return False


def lease_state(storage: Storage, name: str) -> LeaseState | None:
    """The newest generation of a lease, or None if nobody ever held it."""
    renewal = _read_renewal(storage, name)
    generation = renewal["generation"] if renewal else 0
    claim: Mapping[str, Json] | None = None
    while (newer := read_claim(storage, name, generation + 1)) is not None:
        generation, claim = generation + 1, newer
    if claim is not None:  # when the renewal was read, its holder had not renewed yet
        inherited = tuple(Process.from_json(p) for p in claim["processes"])
        return LeaseState(generation, Process.from_json(claim["holder"]), 0, inherited, False)
    if renewal is None:
        return None
    return LeaseState(
        generation,
        Process.from_json(renewal["holder"]),
        renewal["counter"],
        tuple(Process.from_json(p) for p in renewal["processes"]),
        renewal["released"],
    )


def read_claim(storage: Storage, name: str, generation: int) -> dict[str, Json] | None:
    """The claim of a generation, or None if nobody made it.

    Raises:
        CorruptError: it is damaged.
    """
    file = claim_name(name, generation)
    try:
        body = unseal(file, storage.read(file))
        check_shape(file, body, _ClaimShape)
    except FileNotFoundError:
        return None
    return body


def claim_name(name: str, generation: int) -> str:
    """The file that whoever claims a generation creates."""
    return f"{name}.d/{generation:07d}.json"


class _ClaimShape(Shape):
    holder: ProcessShape
    processes: list[ProcessShape]
    token: str = ""


class _RenewalShape(Shape):
    generation: Count
    counter: Count
    holder: ProcessShape
    processes: list[ProcessShape]
    released: bool


def _read_renewal(storage: Storage, name: str) -> dict[str, Json] | None:
    try:
        body = unseal(name, storage.read(name))
        check_shape(name, body, _RenewalShape)
    except (FileNotFoundError, CorruptError):  # a damaged one does no harm: the claims still stand
        return None
    return body
