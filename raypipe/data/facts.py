"""Facts of an input file from one pass over it: size, hashes, records, offsets for seeking.

Later it is checked that the file still has the bytes that were counted.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from raypipe.data.formats.registry import get_format
from raypipe.data.split import Counted
from raypipe.errors import LEAVE_INPUTS, CorruptError
from raypipe.storage.compression import is_compressed, open_binary
from raypipe.storage.records import hash_file

CHECKPOINT_RECORDS = 100_000


@dataclass(frozen=True, kw_only=True)
class FileFacts:
    """The facts of an input file when it was counted."""

    name: str
    """File name without its folder, or an ir_datasets id as given."""
    num_bytes: int
    sha256: str
    md5: str
    """Hash of the raw, compressed bytes; of the streamed records if the source has no lines."""
    num_records: int
    compressed: bool
    checkpoint_records: int
    checkpoints: tuple[int, ...]
    """Byte offsets in the uncompressed text of records 0, checkpoint_records, 2 of them, ..."""
    stretches: tuple[str, ...]
    """SHA-256 of the text from each checkpoint to the next; empty for a compressed file."""


def to_json(facts: FileFacts) -> dict[str, Any]:
    """The facts as a plain dict that JSON preserves."""
    lists = {"checkpoints": list(facts.checkpoints), "stretches": list(facts.stretches)}
    return asdict(facts) | lists


def from_json(fields: Mapping[str, Any]) -> FileFacts:
    """The facts that `to_json` wrote."""
    tuples = {name: tuple(fields[name]) for name in ("checkpoints", "stretches")}
    return FileFacts(**{**fields, **tuples})


def count_file(
    path: Path,
    *,
    format: str,
    fields: Mapping[str, str] | None = None,
    checkpoint_records: int = CHECKPOINT_RECORDS,
) -> FileFacts:
    """The facts of one file, from one pass over its raw bytes in bounded memory.

    Records are counted, not parsed; `read_records` finds their problems. Only the bytes of CBOR are
    checked here.

    Raises:
        InputError: no such file or format, truncated or damaged data.
    """
    kind = get_format(format, fields)
    sha256, md5 = hashlib.sha256(), hashlib.md5(usedforsecurity=False)
    num_bytes = 0

    def observe(block: memoryview) -> None:
        nonlocal num_bytes
        num_bytes += len(block)
        sha256.update(block)
        md5.update(block)

    if kind.stream is not None:
        name, compressed = str(path), False
        counted = Counted(_count_streamed(kind.stream(path, 0, None), observe), (), ())
    else:
        with open_binary(path, observe=observe) as stream:
            counted = kind.split.count(stream, str(path), checkpoint_records)
        name, compressed = path.name, is_compressed(path)
    return FileFacts(
        name=name,
        num_bytes=num_bytes,
        sha256=sha256.hexdigest(),
        md5=md5.hexdigest(),
        num_records=counted.num_records,
        compressed=compressed,
        checkpoint_records=checkpoint_records,
        checkpoints=counted.checkpoints,
        stretches=() if compressed else counted.stretches,
    )


def _count_streamed(
    passages: Iterator[tuple[str, str]], observe: Callable[[memoryview], None]
) -> int:
    """The number of passages of a source without lines, whose bytes are these records."""
    num_records = 0
    for passage in passages:
        fields = [value.encode("utf-8", "surrogatepass") for value in passage]
        # Lengths first, so that no two lists of records have the same bytes.
        parts = (len(field).to_bytes(8, "little") + field for field in fields)
        observe(memoryview(b"".join(parts)))
        num_records += 1
    return num_records


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
        actual = hash_file(path)
        if actual != facts.sha256:
            raise changed(path, f"SHA-256 {facts.sha256} expected, {actual} found")
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
