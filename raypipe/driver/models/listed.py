"""Files of a repository compared with the hub's own list of them, which has git's hashes.

huggingface_hub compares sizes alone, and what is once in its cache stays there.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from raypipe.storage.records import hash_file


def wrong_files(folder: Path, files: Mapping[str, str]) -> list[str]:
    """One problem for each file that is not in the folder, or has other bytes there.

    Args:
        folder: the library's, of one commit.
        files: git's hash of each file by name; of one in LFS, such as weights, its pointer's.
    """
    problems = []
    for name, listed in files.items():
        path = (folder / name).resolve()
        if not path.is_file():
            problems.append(f"{name}: on the hub's list, and not in {folder}")
        elif not _is_listed(path, listed):
            problems.append(
                f"{name}: expected the bytes of git's hash {listed}, as on the hub's list, found "
                f"others in {path}; delete that file and run again"
            )
    return problems


def _is_listed(path: Path, listed: str) -> bool:
    sha256 = hash_file(path)
    # The cache names a file in LFS by the SHA-256 that the hub gave.
    if path.name == sha256:
        return True
    size = path.stat().st_size
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n"
    return listed == _git_sha1(pointer.encode()) or listed == _git_sha1(path.read_bytes())


def _git_sha1(data: bytes) -> str:
    """The hash by which git names a content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
