"""Leases: who works on a store or a workspace. They save work; safety never depends on them.

Generation n of a lease is the exclusive creation of `NAME.d/n.json`, its claim, with the holder's
identity; `NAME` itself is replaced every few seconds, with a counter, the processes that work for
the holder, and whether the lease was released.
"""

import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from raypipe.errors import CorruptError, RefusedError
from raypipe.storage.holder import Life, Process, ProcessShape, this_process, wait_until_dead
from raypipe.storage.records import Count, Json, Shape, check_shape, seal, unseal
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
    state = lease_state(storage, name)
    life = Life.DEAD if state is None else state.life()
    if life is not Life.UNKNOWN:
        return state if life is Life.ALIVE else None
    deadline = time.monotonic() + WATCH_SECONDS
    while time.monotonic() < deadline:
        time.sleep(0.5)
        now = lease_state(storage, name)
        if now != state:
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


def tokens_of_claims(storage: Storage, name: str, generation: int) -> dict[str, bool]:
    """The token of each claim that stands -> whether its generation is lower than this one."""
    tokens: dict[str, bool] = {}
    for file in storage.names(f"{name}.d"):
        number = int(file[-len("0000001.json") : -len(".json")])
        with suppress(CorruptError):  # one that nobody reads any more
            claim = read_claim(storage, name, number)
            tokens[(claim or {}).get("token", "")] = number < generation
    return tokens


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


RENEW_SECONDS = 3.0
WAIT_FOR_PROCESSES_SECONDS = 30.0
_HELD: set[str] = set()
"""Tokens of the claims that this process makes and has not released. A claim of this process with
another token is what a failed attempt left, so a repetition in the same process may replace it."""


class Lease:
    """A held lease; renews itself until `release`."""

    def __init__(
        self,
        storage: Storage,
        name: str,
        generation: int,
        processes: Iterable[Process] = (),
        token: str = "",
        replace: Callable[[str, bytes], None] | None = None,
    ) -> None:
        """Use `acquire`; `processes` are those of the holder before, which may still run."""
        self.generation = generation
        self._replace = replace
        self._token = token
        self._storage, self._name = storage, name
        self._holder = this_process()
        self._processes: set[Process] = set(processes)
        self._counter = 0
        self._lost = False
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._renew()
        self._thread = threading.Thread(target=self._keep, name=f"lease {name}", daemon=True)
        self._thread.start()

    @property
    def lost(self) -> bool:
        """Whether another holder has taken the lease; the work should stop."""
        return self._lost

    def still_held(self) -> bool:
        """Whether no other holder has taken the lease up to now."""
        return not self._taken_over()

    def add_processes(self, processes: Iterable[Process]) -> None:
        """Record processes that work for the holder: a successor waits until they have ended."""
        self._processes.update(processes)
        self._renew()

    def forget_processes(self) -> None:
        """The processes of the holder before have ended."""
        self._processes.clear()
        self._renew()

    def release(self) -> None:
        """Release the lease for a successor; does nothing if one already has it."""
        self._ended.set()
        self._thread.join()
        _HELD.discard(self._token)
        self._renew(released=True)

    def _keep(self) -> None:
        while not self._ended.wait(RENEW_SECONDS):
            with suppress(OSError, RefusedError):  # the storage may answer again in a moment
                self._renew()
            if self._lost:
                return

    def _taken_over(self) -> bool:
        """Whether a successor has claimed the lease, perhaps since the last check."""
        self._lost = self._lost or self._storage.exists(claim_name(self._name, self.generation + 1))
        return self._lost

    def _renew(self, released: bool = False) -> None:
        """Write that the holder is alive, or has released the lease; nothing after a takeover."""
        with self._lock:
            if self._taken_over():
                return
            self._counter += 1
            body = {
                "generation": self.generation,
                "counter": self._counter,
                "holder": self._holder.to_json(),
                "processes": [p.to_json() for p in sorted(self._processes, key=lambda p: p.pid)],
                "released": released,
            }
            replace = self._replace or self._storage.replace
            replace(self._name, seal(body))


def new_token() -> str:
    """A word for one claim."""
    return secrets.token_hex(8)


def acquire(
    storage: Storage,
    name: str,
    *,
    watch_seconds: float = WATCH_SECONDS,
    on_watch: Callable[[LeaseState], None] = lambda state: None,
    gone: set[Process] | None = None,
    token: str | None = None,
    replace: Callable[[str, bytes], None] | None = None,
) -> Lease:
    """A lease, held by this process.

    Refuses while the holder is alive, and takes over at once from a provably dead one. If this
    process cannot tell, it waits for the holder to renew its lease. Then it waits for the old
    holder's processes to end, while the lease is renewed.

    Args:
        storage: where the lease is.
        name: its name there.
        watch_seconds: how long a holder that cannot be seen is watched.
        on_watch: told of such a holder, once.
        gone: holders that were watched already and did not renew; they are not watched again. The
            one that is replaced here is added.
        token: what distinguishes the claim from all others; a new one by default.
        replace: writes a renewal; the storage by default.

    Raises:
        RefusedError: the holder is alive, or its processes do not end.
    """
    gone = set() if gone is None else gone
    token = token or new_token()
    while True:
        before = lease_state(storage, name)
        if before is not None and before.holder not in gone:
            _refuse_living(storage, name, before, watch_seconds, on_watch)
        generation = before.generation + 1 if before else 1
        processes = before.processes if before else ()
        _HELD.add(token)  # first: another thread must not take the claim for one that was left
        try:
            if not _claimed(storage, name, generation, processes, token):
                _HELD.discard(token)
                continue
            lease = Lease(storage, name, generation, processes, token, replace)
        except BaseException:
            _HELD.discard(token)
            raise
        try:
            _wait_for(name, processes)
            if processes:
                lease.forget_processes()
        except BaseException:
            with suppress(OSError):  # the error that led here says more
                lease.release()  # it still names them, so that the next one waits too
            raise
        if before is not None and not before.released:
            gone.add(before.holder)
        return lease


def _claimed(
    storage: Storage, name: str, generation: int, processes: Iterable[Process], token: str
) -> bool:
    """Whether the claim is this process's; also if it was created and the answer was lost."""
    body = {
        "holder": this_process().to_json(),
        "processes": [process.to_json() for process in processes],
        "token": token,
    }
    claim = claim_name(name, generation)
    return storage.create(claim, seal(body)) or read_claim(storage, name, generation) == body


def _refuse_living(
    storage: Storage,
    name: str,
    state: LeaseState,
    watch_seconds: float,
    on_watch: Callable[[LeaseState], None],
) -> None:
    life = state.life()
    if life is Life.UNKNOWN:
        on_watch(state)
        # Our own clock: two hosts' clocks are never compared.
        deadline = time.monotonic() + watch_seconds
        while time.monotonic() < deadline and life is Life.UNKNOWN:
            time.sleep(min(0.5, watch_seconds / 10))
            now = lease_state(storage, name)
            if now is not None and now.released:
                return
            if now is None or (now.generation, now.counter) != (state.generation, state.counter):
                life = Life.ALIVE
    if life is Life.ALIVE and not _was_left(storage, name, state):
        raise RefusedError(
            f"{name}: {state.holder} is working here. Wait until it ends, or stop it; "
            "a dead holder is replaced without asking."
        )


def _was_left(storage: Storage, name: str, state: LeaseState) -> bool:
    """Whether an attempt of this very process made the claim and failed."""
    if state.holder != this_process():
        return False
    claim = read_claim(storage, name, state.generation) or {}
    return "token" in claim and claim["token"] not in _HELD


def _wait_for(name: str, processes: Iterable[Process]) -> None:
    living = wait_until_dead(processes, WAIT_FOR_PROCESSES_SECONDS)
    if living:
        raise RefusedError(
            f"{name}: processes of the previous invocation still run after "
            f"{WAIT_FOR_PROCESSES_SECONDS:.0f} s: {', '.join(map(str, living))}. End them."
        )
