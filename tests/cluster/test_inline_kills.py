"""Two hundred seeded kills of the plain loop, each at some write, fsync, link or removal.

The job runs in a forked child in which one file system call, chosen by the seed, is its last: the
process ends there, before or after the call. Then it runs again, undisturbed or killed once more.
"""

import os
import random
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import pytest

from raypipe.cluster.backend import Task
from raypipe.cluster.loop import Loop
from raypipe.cluster.report import Limits
from raypipe.cluster.worker import InlineBackend
from raypipe.stages.stage import Opened, Payload, Stage
from raypipe.storage.lease import acquire
from raypipe.storage.ledger import Ledger, read_manifest
from raypipe.storage.posix import PosixStorage
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec

SHARDS = [Shard(i, 3 * i, 3 * i + 3) for i in range(6)]
SPEC = StageSpec("toy", 1, {"factor": 7}, {})
KILLED = 86
CALLS = ("link", "replace", "fsync", "unlink", "rmdir", "write", "chmod")


class ToyStage(Stage):
    """Rows as lines: row times seven."""

    spec = SPEC

    def shards(self, sizing):
        return SHARDS

    def open(self, site):
        return Opened(partial(self._run, site.scratch))

    def _run(self, scratch, shard, skip, beat):
        path = scratch / f"{shard.index}.txt"
        with path.open("w") as out:
            for row in range(shard.start, shard.stop):
                beat([row])
                out.write(f"{row * 7}\n")
        return Payload(path, {"rows": shard.num_rows})


def job(root: Path) -> None:
    storage = PosixStorage(root)
    name = f"toy/{SPEC.fingerprint()}/lease.json"
    lease = acquire(storage, name)
    ledger = Ledger(storage, "toy", SPEC, SHARDS)
    ledger.storage.sweep()
    backend = InlineBackend()
    Loop(Task(ToyStage(), ledger), backend, Limits()).run()
    ledger.publish()
    ledger.storage.sweep()
    lease.release()


def arm(at: int, before: bool, count: list[int]) -> None:
    """Make the `at`-th file system call of this process its last."""

    def wrap(original):
        def call(*arguments, **options):
            count[0] += 1
            if count[0] == at and before:
                os._exit(KILLED)
            result = original(*arguments, **options)
            if count[0] == at:
                os._exit(KILLED)
            return result

        return call

    for name in CALLS:
        setattr(os, name, wrap(getattr(os, name)))


def in_child(root: Path, at: int, before: bool) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            arm(at, before, [0])
            job(root)
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def durable(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and "lease.json" not in str(path) and path.name != "attempts.jsonl"
    }


def num_calls(root: Path) -> int:
    """File system calls of a calm job: the highest number at which a kill still hits."""
    low, high = 1, 2000
    while low < high:
        middle = (low + high + 1) // 2
        killed = in_child(root / str(middle), middle, True) == KILLED
        low, high = (middle, high) if killed else (low, middle - 1)
    return low


def kill_and_compare(folder: Path) -> None:
    job(folder / "here")  # what it loads each child would load again, in half of its time
    calm = folder / "calm"
    assert in_child(calm, 0, True) == 0
    expected, last = durable(calm), num_calls(folder / "count")
    assert last > 50
    for seed in range(200):
        rng = random.Random(seed)
        root = folder / str(seed)
        kills = 0
        while True:
            # Half of the seeds walk through every call in turn, the others kill at random ones.
            at = 1 + seed * last // 100 if seed < 100 and not kills else rng.randint(1, last)
            code = in_child(root, at if kills < 3 else 0, rng.random() < 0.5)
            assert code in (0, KILLED), f"seed {seed}: the job failed"
            manifest = read_manifest(PosixStorage(root), "toy", SPEC.fingerprint())
            if manifest is not None:
                assert manifest.num_rows == 18, f"seed {seed}"
            if code == 0:
                break
            kills += 1
        assert kills >= 1, f"seed {seed}: nothing was killed"
        found = durable(root)
        assert found == expected, f"seed {seed}: {sorted(found.keys() ^ expected.keys())}"
        shutil.rmtree(root)


@pytest.mark.slow
@pytest.mark.fault(3, "after each of the kills a manifest is absent or whole")
@pytest.mark.fault(
    2, "200 of 200 jobs whose only process is killed are completed by the same command"
)
@pytest.mark.fault(
    1, "200 of 200 jobs killed at some file system call end with the bytes of a calm one"
)
def test_two_hundred_killed_jobs_leave_the_bytes_of_a_calm_one():
    """In an interpreter of its own: forks of one that holds torch take three times as long.

    In memory where there is room: a killed process leaves there what it leaves on a disk, and a
    busy disk takes ten times as long.
    """
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent.parent)}
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        command = [sys.executable, __file__, folder]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr


if __name__ == "__main__":
    kill_and_compare(Path(sys.argv[1]))
