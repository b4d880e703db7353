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


def living(storage: Storage, name: str) -> LeaseState | None:
    """The lease if its holder is at work; None if nobody holds it.

    A holder on another host or in another container cannot be seen: it is at work if it renews the
    lease within WATCH_SECONDS of this process's clock.
    """
    found = lease_state(storage, name)
    life = Life.DEAD if found is None else found.life()
    if life is not Life.UNKNOWN:
        return found if life is Life.ALIVE else None
    deadline = time.monotonic() + WATCH_SECONDS
    while time.monotonic() < deadline:
        time.sleep(0.5)
        now = lease_state(storage, name)
        if now != found:
            return None if now is None or now.released else now
    return None


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
