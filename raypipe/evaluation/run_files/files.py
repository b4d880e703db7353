"""Bytes of run files: read compressed or not, written completely or not at all."""

import bz2
import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from raypipe.errors import InputError
from raypipe.regular import check_regular
from raypipe.storage.files import replacing

BLOCK_BYTES = 4 << 20

_GZIP, _BZIP2, _ZSTD = b"\x1f\x8b", b"BZh", b"\x28\xb5\x2f\xfd"


def line_blocks(path: Path, *, block_bytes: int = BLOCK_BYTES) -> Iterator[bytes]:
    """The file's decompressed content in blocks of whole lines, without a byte order mark.

    The first bytes, not the name, decide how the file is compressed. The last block may lack its
    final newline.

    Raises:
        InputError: the file is missing, truncated, or not in the format that its first bytes show.
    """
    rest = b""
    first = True
    for chunk in _chunks(path, block_bytes):
        if first:
            chunk, first = chunk.removeprefix(b"\xef\xbb\xbf"), False
        head, newline, tail = chunk.rpartition(b"\n")
        if newline:
            yield rest + head + newline
            rest = tail
        else:
            rest += chunk
    if rest:
        yield rest


@contextmanager
def replacing_run(path: Path) -> Iterator[IO[bytes]]:
    """A file to write that then replaces `path`: see `raypipe.storage.files.replacing`.

    A file whose name ends in .gz, .bz2 or .zst is compressed, without a time stamp.
    """
    with replacing(path) as raw, _compressing(raw, path.suffix) as out:
        yield out


def _chunks(path: Path, size: int) -> Iterator[bytes]:
    """Decompressed pieces of the file, none empty."""
    check_regular(path)
    try:
        with path.open("rb") as raw:
            start = raw.read(4)
            raw.seek(0)
            if start == _ZSTD:
                yield from _zstd_chunks(raw, size)
                return
            content: IO[bytes] = raw
            if start.startswith(_GZIP):
                content = gzip.open(raw)  # type: ignore[assignment]
            elif start.startswith(_BZIP2):
                content = bz2.open(raw)
            while chunk := content.read(size):
                yield chunk
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read ({error}); expected a whole file") from error


def _zstd_chunks(raw: IO[bytes], size: int) -> Iterator[bytes]:
    """Decompressed pieces, frame by frame: a stream reader would take a cut frame for the end."""
    import zstandard

    decompressor = zstandard.ZstdDecompressor()
    frame, pending = decompressor.decompressobj(), b""
    while data := pending or raw.read(min(size, 1 << 18)):
        try:
            if chunk := frame.decompress(data):
                yield chunk
        except zstandard.ZstdError as error:
            raise OSError(str(error)) from error
        pending = b""
        if frame.eof:
            frame, pending = decompressor.decompressobj(), frame.unused_data
            ended = True
        else:
            ended = False
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
