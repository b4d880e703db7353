"""Runs a command and measures all its processes: time, memory, and what it wrote."""

import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

SECONDS_BETWEEN = 0.5


@dataclass(frozen=True)
class Watched:
    """What a command took."""

    exit_code: int
    seconds: float
    """Wall time."""
    cpu_seconds: float
    """Of all its processes, each as last seen, at most half a second before its end."""
    peak_bytes: int
    """Most anonymous memory of one process; pages of files are the system's to drop."""


def watch(command: Sequence[str]) -> Watched:
    """Run a command to its end; its output is this process's."""
    begun = time.monotonic()
    cpu: dict[tuple[int, float], float] = {}
    peak = 0
    with subprocess.Popen(command) as process:
        root = psutil.Process(process.pid)
        while process.poll() is None:
            for one in _family(root):
                try:
                    times = one.cpu_times()
                    cpu[one.pid, one.create_time()] = times.user + times.system
                    peak = max(peak, anonymous_bytes(one.pid))
                except (psutil.NoSuchProcess, psutil.ZombieProcess, OSError):
                    continue  # it ended between two looks
            time.sleep(SECONDS_BETWEEN)
    return Watched(process.returncode, time.monotonic() - begun, sum(cpu.values()), peak)


def anonymous_bytes(pid: int) -> int:
    """Anonymous resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) << 10
    return 0


def bytes_under(folder: Path) -> int:
    """Disk blocks of all files in a folder."""
    return sum(file.lstat().st_blocks << 9 for file in folder.rglob("*") if not file.is_dir())


def _family(root: psutil.Process) -> list[psutil.Process]:
    try:
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
