"""What a holder that never gave its lease back leaves behind."""

import dataclasses
import subprocess
import sys

from raypipe.storage.holder import this_process
from raypipe.storage.records import seal

NAME = "toy/f/lease.json"


def leave(storage, holder, processes=(), generation=1):
    """Its claim, and its last renewal, the fifth."""
    claim = {"holder": holder.to_json(), "processes": []}
    storage.create(f"{NAME}.d/{generation:07d}.json", seal(claim))
    renew(storage, holder, 5, processes=processes, generation=generation)


def renew(storage, holder, counter, *, processes=(), generation=1, released=False):
    body = {"generation": generation, "counter": counter, "holder": holder.to_json()}
    bodies = [process.to_json() for process in processes]
    storage.replace(NAME, seal({**body, "processes": bodies, "released": released}))


def elsewhere():
    """A process of which nothing can be known here."""
    return dataclasses.replace(this_process(), host="elsewhere")


def dead():
    """One that has ended."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return dataclasses.replace(this_process(), pid=child.pid, start_time=1.0)
