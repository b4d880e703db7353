"""Checks that an input file still has the bytes that were counted."""

import hashlib
from pathlib import Path
from typing import BinaryIO

from raypipe.data.facts import FileFacts
from raypipe.errors import LEAVE_INPUTS, CorruptError
from raypipe.storage.records import hash_file

BLOCK_BYTES = 1 << 20


def check_unchanged(path: Path, facts: FileFacts, start: int, stop: int) -> None:
    """Returns nothing if the text of records [start, stop) has the bytes that were counted.

    Call it after reading the records, so that a change before or during the reading is found.

    Raises:
        CorruptError: the bytes differ.
    """
    try:
        num_bytes = path.stat().st_size
    except FileNotFoundError as error:
        raise changed(path, "it is gone") from error
    if num_bytes != facts.num_bytes:
        raise changed(path, f"{facts.num_bytes:,} bytes expected, {num_bytes:,} found")
    if facts.compressed:
        found = hash_file(path)
        if found != facts.sha256:
            raise changed(path, f"SHA-256 {facts.sha256} expected, {found} found")
        return
    every = facts.checkpoint_records
    bounds = [*facts.checkpoints, facts.num_bytes]
    with path.open("rb") as stream:
        for number in range(start // every, -(-stop // every)):
            first, last = bounds[number : number + 2]
            stream.seek(first)
            if _sha256(stream, last - first) != facts.stretches[number]:
                raise changed(path, f"other bytes from byte {first:,} on")


def changed(path: Path, difference: str) -> CorruptError:
    """The error for a file that is no longer the one that was counted."""
    return CorruptError(f"{path}: not the file that was counted: {difference}. {LEAVE_INPUTS}")


def _sha256(stream: BinaryIO, num_bytes: int) -> str:
    """SHA-256 of the next bytes; of fewer if the stream ends."""
    sha256 = hashlib.sha256()
    while num_bytes and (block := stream.read(min(BLOCK_BYTES, num_bytes))):
        sha256.update(block)
        num_bytes -= len(block)
    return sha256.hexdigest()
