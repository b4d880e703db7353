"""Readers of a line of generations while those who publish are killed, one after another."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from raypipe.storage.generations import Generation, create_generation, newest_generation
from raypipe.storage.posix import PosixStorage

KILLS = 20
PARTS = [f"store-{part}" for part in range(50)]


def publisher(root):
    """A process that publishes one generation after another until it is ended."""
    pid = os.fork()
    if pid == 0:
        try:
            stores = PosixStorage(root)
            while True:
                newest = newest_generation(stores, "nightly")
                number = 1 if newest is None else newest.number + 1
                parts = dict.fromkeys(PARTS, str(number))
                create_generation(stores, Generation("nightly", number, parts))
        finally:
            os._exit(1)
    return pid


@pytest.mark.fault(
    3, "20 publishers killed: every generation read is whole, none mixed, none older"
)
def test_no_reader_sees_half_a_generation_or_goes_back_while_publishers_are_killed(tmp_path):
    done = subprocess.run(
        [sys.executable, __file__, str(tmp_path / "stores")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = dict(word.split("=") for word in done.stdout.split())
    assert int(told["kills"]) == KILLS and int(told["newest"]) >= KILLS
    assert int(told["reads"]) > KILLS and int(told["mixed"]) == int(told["back"]) == 0


def read_beside_killed_publishers(root):
    stores, last = PosixStorage(root), 0
    kills = reads = mixed = back = 0
    while kills < KILLS:
        pid, first = publisher(root), last
        while last < first + 1 + kills % 3:
            found = newest_generation(stores, "nightly")
            if found is None:
                continue
            reads += 1
            mixed += found.stores != dict.fromkeys(PARTS, str(found.number))
            back += found.number < last
            last = found.number
        os.kill(pid, signal.SIGKILL)
        ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        kills += ended == -signal.SIGKILL
    print(f"{kills=} {reads=} {mixed=} {back=} newest={last}")


if __name__ == "__main__":
    read_beside_killed_publishers(Path(sys.argv[1]))
