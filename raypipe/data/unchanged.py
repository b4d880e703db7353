"""Whether an input file still has the bytes that were counted."""

import hashlib
from pathlib import Path

from raypipe.data.facts import FileFacts
from raypipe.errors import CorruptError

BLOCK_BYTES = 1 << 20


def check_unchanged(path: Path, facts: FileFacts, start: int, stop: int) -> None:
    """Nothing, where the text of records [start, stop) has the bytes that were counted.

    Asked after the records were read, so that a file which changed before or meanwhile is found.

    Raises:
        CorruptError: the bytes differ.
    """
    if facts.compressed:
        found = _sha256(path, 0, None)
        if found != facts.sha256:
            raise changed(path, f"SHA-256 {facts.sha256} expected, {found} found")
        return
    every = facts.checkpoint_records
    bounds: list[int | None] = [*facts.checkpoints, None]
    for number in range(start // every, -(-stop // every)):
        first = facts.checkpoints[number]
        if _sha256(path, first, bounds[number + 1]) != facts.stretches[number]:
            raise changed(path, f"other bytes from byte {first:,} on")


def changed(path: Path, difference: str) -> CorruptError:
    """What to tell of a file that is another one now."""
    return CorruptError(
        f"{path}: not the file that was counted: {difference}. An input must rest while it is "
        "read; run the same command again"
    )


def _sha256(path: Path, start: int, stop: int | None) -> str:
    sha256 = hashlib.sha256()
    with path.open("rb") as stream:
        stream.seek(start)
        left = -1 if stop is None else stop - start
        while block := stream.read(BLOCK_BYTES if left < 0 else min(BLOCK_BYTES, left)):
            sha256.update(block)
            left -= len(block) if left >= 0 else 0
    return sha256.hexdigest()
