"""What is left on a disk when power is lost: what was flushed, and nothing else.

A name survives if its folder was flushed after it was made, and bytes if their file was flushed
after they were written: the least that POSIX promises. A file that was removed is there again if
its folder was not flushed since.
"""

import os
import stat
from pathlib import Path


class Disk:
    """What has been flushed of a folder."""

    def __init__(self, root):
        self.root = root
        self._names: dict[Path, dict[str, os.stat_result]] = {}
        self._bytes: dict[int, bytes] = {}

    def flushed(self, descriptor):
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if path.is_dir():
            self._names[path] = {name: os.lstat(path / name) for name in os.listdir(path)}
        else:
            self._bytes[os.stat(path).st_ino] = path.read_bytes()

    def survivors(self, target):
        """A folder with what a machine finds that is switched on again."""
        self._copy(self.root, target)
        return target

    def _copy(self, source, target):
        target.mkdir(parents=True)
        for name, noted in self._names.get(source, {}).items():
            if stat.S_ISDIR(noted.st_mode):
                self._copy(source / name, target / name)
            else:
                (target / name).write_bytes(self._bytes.get(noted.st_ino, b""))


def noting_disk(root, monkeypatch):
    """A new folder of which every flush is noted."""
    root.mkdir()
    found, fsync = Disk(root), os.fsync

    def noted(descriptor):
        fsync(descriptor)
        found.flushed(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    return found
