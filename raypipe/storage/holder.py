"""The identity of a process, and whether it is provably dead."""

import os
import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Annotated

import psutil
from pydantic import Field

from raypipe.storage.records import Json, Shape, digest


class Life(Enum):
    """The state of another process, as far as this one can prove it."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"


class ProcessShape(Shape):
    """The body of a process."""

    host: str
    boot_id: str
    pid_namespace: str
    pid: Annotated[int, Field(ge=0, lt=2**31)]
    start_time: float


@dataclass(frozen=True, slots=True)
class Process:
    """A process, distinguished by its start time from any later one with the same id."""

    host: str
    boot_id: str
    pid_namespace: str
    pid: int
    start_time: float

    def to_json(self) -> dict[str, Json]:
        """The five fields."""
        return asdict(self)

    @staticmethod
    def from_json(body: Mapping[str, Json]) -> "Process":
        """The process from such a body."""
        return Process(**{name: body[name] for name in ProcessShape.model_fields})

    def life(self) -> Life:
        """ALIVE or DEAD if this process can prove it, otherwise UNKNOWN.

        Nothing can be proved about another host, boot or process-id namespace, as its processes
        cannot be seen from here: two machines may have one host's name.
        """
        here = this_process()
        if (self.host, self.boot_id) != (here.host, here.boot_id):
            return Life.UNKNOWN
        if self.pid_namespace != here.pid_namespace:
            return Life.UNKNOWN
        return Life.ALIVE if _start_time(self.pid) == self.start_time else Life.DEAD

    def __str__(self) -> str:
        """`process 17 on host a`."""
        return f"process {self.pid} on {self.host}"


def this_process() -> Process:
    """The calling process, as it was found when it first asked."""
    return _found(os.getpid())


@cache
def _found(pid: int) -> Process:
    own = running_process(pid)
    assert own is not None
    return own


# A child may have its parent's id in a namespace of its own.
os.register_at_fork(after_in_child=_found.cache_clear)


def running_process(pid: int) -> Process | None:
    """The process on this machine that has this id now; None if there is none."""
    start = _start_time(pid)
    if start is None:
        return None
    return Process(socket.gethostname(), _boot_id(), _pid_namespace(), pid, start)


def process_label() -> str:
    """A name for this process, for `label_is_dead`; safe in a file name."""
    own = this_process()
    return f"process-{own.pid}-{own.start_time:.0f}-{_place(own)}"


def label_is_dead(label: str) -> bool:
    """Whether the labelled process has provably ended; False if it cannot be seen from here."""
    kind, _, rest = label.partition("-")
    pid, _, rest = rest.partition("-")
    start, _, place = rest.partition("-")
    if kind != "process" or place != _place(this_process()):
        return False
    actual = _start_time(int(pid))
    return actual is None or f"{actual:.0f}" != start


def _place(process: Process) -> str:
    """The scope of process ids (host, boot and process-id namespace) as 8 characters."""
    where = f"{process.host} {process.boot_id} {process.pid_namespace}"
    return digest(where.encode())[:8]


def wait_until_dead(processes: Iterable[Process], seconds: float) -> list[Process]:
    """The processes still alive after at most `seconds`; does not wait for unknown ones."""
    deadline = time.monotonic() + seconds
    living = [p for p in processes if p.life() is Life.ALIVE]
    while living and time.monotonic() < deadline:
        time.sleep(0.1)
        living = [p for p in living if p.life() is Life.ALIVE]
    return living


def _start_time(pid: int) -> float | None:
    """Start time of a running process; None if there is none. A zombie has ended."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        if Path("/proc/self/stat").exists():
            # Ticks since boot, which unlike wall-clock times do not change when the clock is set.
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            return float(fields[19])
        return float(process.create_time())
    except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
        return None


def _boot_id() -> str:
    path = Path("/proc/sys/kernel/random/boot_id")
    return path.read_text().strip() if path.exists() else str(psutil.boot_time())


def _pid_namespace() -> str:
    path = Path("/proc/self/ns/pid")
    return os.readlink(path) if path.exists() else "host"
