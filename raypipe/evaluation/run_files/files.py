"""Bytes of run files: read compressed or not, written completely or not at all."""

import bz2
import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO

from raypipe.errors import InputError
from raypipe.regular import MAX_RATIO, check_not_utf16, check_ratio, check_regular
from raypipe.storage.files import replacing

BLOCK_BYTES = 4 << 20
MAX_LINE_BYTES = 16 << 20
"""A longer line is no line of a run, also of one with texts."""

_ZSTD_READ_BYTES = 2 << 10
"""What is read of zstd data at a time: 2 KiB unpack to at most 64 MiB, the only limit there is."""
_GZIP, _BZIP2, _ZSTD = b"\x1f\x8b", b"BZh", b"\x28\xb5\x2f\xfd"


def line_blocks(path: Path, *, block_bytes: int = BLOCK_BYTES) -> Iterator[bytes]:
    """The file's decompressed content in blocks of whole lines, without a byte order mark.

    The first bytes, not the name, decide how the file is compressed. The last block may lack its
    final newline.

    Raises:
        InputError: the file is missing, truncated, UTF-16, or not in the format that its first
            bytes show; a line is longer than `MAX_LINE_BYTES`, or it unpacks to too much
            (`check_ratio`).
    """
    rest: list[bytes] = []
    num_rest = num_lines = 0
    first = True
    for chunk in chunks(path, block_bytes):
        if first:
            check_not_utf16(path, chunk)
            chunk, first = chunk.removeprefix(b"\xef\xbb\xbf"), False
        head, newline, tail = chunk.rpartition(b"\n")
        if num_rest + (chunk.find(b"\n") if newline else len(chunk)) > MAX_LINE_BYTES:
            raise InputError(
                f"{path}: line {num_lines + 1:,}: expected at most {MAX_LINE_BYTES:,} bytes, found "
                "more; is this a run file, with one passage per line?"
            )
        if newline:
            yield b"".join([*rest, head, newline])
            num_lines += head.count(b"\n") + 1
            rest, num_rest = [tail], len(tail)
        else:
            rest.append(chunk)
            num_rest += len(chunk)
    if num_rest:
        yield b"".join(rest)


@contextmanager
def replacing_run(path: Path) -> Iterator[IO[bytes]]:
    """A file to write that then replaces `path`: see `raypipe.storage.files.replacing`.

    A file whose name ends in .gz, .bz2 or .zst is compressed, without a time stamp.
    """
    with replacing(path) as raw, _compressing(raw, path.suffix) as out:
        yield out


def chunks(path: Path, size: int) -> Iterator[bytes]:
    """Decompressed pieces of the file, none empty; the errors are those of `line_blocks`."""
    check_regular(path)
    try:
        with path.open("rb") as raw:
            num_unpacked, strange = 0, False
            for chunk in _pieces(path, raw, size):
                num_unpacked += len(chunk)
                if not strange and num_unpacked > MAX_RATIO * raw.tell():
                    strange = True
                    with path.open("rb") as whole:  # a bomb ends here: nothing is made of its lines
                        for _ in _pieces(path, whole, size):
                            pass
                yield chunk
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read ({error}); expected a whole file") from error


def _pieces(path: Path, raw: BinaryIO, size: int) -> Iterator[bytes]:
    start = raw.read(4)
    raw.seek(0)
    if start == _ZSTD:
        yield from _zstd_chunks(path, raw, size)
        return
    content: IO[bytes] = raw
    if start.startswith(_GZIP):
        content = gzip.open(raw)  # type: ignore[assignment]
    elif start.startswith(_BZIP2):
        content = bz2.open(raw)
    num_packed, num_unpacked = path.stat().st_size, 0
    while chunk := content.read(size):
        num_unpacked += len(chunk)
        check_ratio(path, num_packed, num_unpacked)
        yield chunk


def _zstd_chunks(path: Path, raw: BinaryIO, size: int) -> Iterator[bytes]:
    """Decompressed pieces, frame by frame: a stream reader would take a cut frame for the end."""
    import zstandard

    decompressor = zstandard.ZstdDecompressor()
    frame, pending = decompressor.decompressobj(), b""
    parts: list[bytes] = []
    num_packed, num_parts, num_unpacked = path.stat().st_size, 0, 0
    while data := pending or raw.read(_ZSTD_READ_BYTES):
        try:
            part = frame.decompress(data)
            num_unpacked += len(part)
            check_ratio(path, num_packed, num_unpacked)
            parts.append(part)
            num_parts += len(part)
            if num_parts >= size:
                yield b"".join(parts)
                parts, num_parts = [], 0
        except zstandard.ZstdError as error:
            raise OSError(str(error)) from error
        pending = b""
        if frame.eof:
            frame, pending = decompressor.decompressobj(), frame.unused_data
            ended = True
        else:
            ended = False
    if num_parts:
        yield b"".join(parts)
    if not ended:
        raise EOFError("the last zstd frame is not complete")


@contextmanager
def _compressing(raw: IO[bytes], suffix: str) -> Iterator[IO[bytes]]:
    """`raw`, or a compressor that writes to it and leaves it open."""
    if suffix == ".gz":
        with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as out:
            yield out  # type: ignore[misc]
    elif suffix == ".bz2":
        with bz2.open(raw, "wb") as out:
            yield out
    elif suffix == ".zst":
        import zstandard

        with zstandard.ZstdCompressor().stream_writer(raw, closefd=False) as out:
            yield out
    else:
        yield raw
