"""The input files that a user names, each as a stream of plain bytes, whatever its compression."""

import bz2
import io
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

from raypipe.errors import InputError
from raypipe.regular import check_ratio, check_regular

COMPRESSED_SUFFIXES = (".gz", ".bz2", ".zst")
_BUFFER_BYTES = 1 << 20
_ZSTD_SKIPPABLE = tuple(bytes([low]) + b"\x2a\x4d\x18" for low in range(0x50, 0x60))


class _Decoder(Protocol):
    """One gzip or bzip2 member or zstd frame."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...


class _Codec(NamedTuple):
    name: str
    new: Callable[[], _Decoder]
    feed: Callable[[Any, bytes], Iterator[bytes]]
    """Decoder and input -> output in blocks, of bounded size even for a decompression bomb."""
    chunk_bytes: int
    error: type[Exception]


def _feed_gzip(decoder: Any, data: bytes) -> Iterator[bytes]:
    while data and not decoder.eof:  # at eof unconsumed_tail repeats what unused_data holds
        yield decoder.decompress(data, _BUFFER_BYTES)
        data = decoder.unconsumed_tail


def _feed_bzip2(decoder: bz2.BZ2Decompressor, data: bytes) -> Iterator[bytes]:
    yield decoder.decompress(data, _BUFFER_BYTES)
    while not decoder.eof and not decoder.needs_input:
        yield decoder.decompress(b"", _BUFFER_BYTES)


def _zstd_codec() -> _Codec:
    import zstandard

    # zstandard's stream_reader ends a truncated file without an error; decompressobj has `eof`, but
    # no limit on its output. So its input is small: 2 KiB unpack to at most 64 MiB (4 bytes a
    # block).
    return _Codec(
        "zstd",
        lambda: zstandard.ZstdDecompressor().decompressobj(),
        lambda decoder, data: iter([decoder.decompress(data)]),
        2 << 10,
        zstandard.ZstdError,
    )


def _codec(head: bytes) -> _Codec | None:
    if head[:3] == b"\x1f\x8b\x08":
        # 31: with gzip's header and checksum.
        return _Codec("gzip", lambda: zlib.decompressobj(31), _feed_gzip, 64 << 10, zlib.error)
    if head[:3] == b"BZh" and head[4:10] in (b"1AY&SY", b"\x17rE8P\x90"):
        return _Codec("bzip2", bz2.BZ2Decompressor, _feed_bzip2, 64 << 10, OSError)
    if head[:4] == b"\x28\xb5\x2f\xfd" or head[:4] in _ZSTD_SKIPPABLE:
        return _zstd_codec()
    return None


def _blocks(source: BinaryIO, codec: _Codec, path: Path) -> Iterator[bytes]:
    """The unpacked bytes of every member; InputError if it is truncated, damaged or a bomb."""
    decoder, reached, num_packed = codec.new(), 0, path.stat().st_size
    while data := source.read(codec.chunk_bytes):
        while data:
            if decoder.eof:
                data = data.lstrip(b"\0")  # padding after the last member is allowed
                if not data:
                    break
                decoder = codec.new()
            try:
                for block in codec.feed(decoder, data):
                    reached += len(block)
                    check_ratio(path, num_packed, reached)
                    yield block
            except codec.error as error:
                raise InputError(
                    f"{path}: damaged {codec.name} data after byte {reached:,} of the unpacked"
                    f" text ({error}); fetch the file again"
                ) from error
            data = decoder.unused_data if decoder.eof else b""
    if not decoder.eof:
        raise InputError(
            f"{path}: cut off: the {codec.name} data stop after byte {reached:,} of the unpacked"
            " text, before their end mark; fetch the file again"
        )


class _Unpacked(io.RawIOBase):
    """A raw stream that reads blocks of bytes."""

    def __init__(self, source: BinaryIO, blocks: Iterator[bytes]) -> None:
        self._source, self._blocks, self._pending = source, blocks, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        while not self._pending:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._pending = memoryview(block)
        count = min(len(buffer), len(self._pending))
        buffer[:count] = self._pending[:count]
        self._pending = self._pending[count:]
        return count

    def close(self) -> None:
        self._source.close()
        super().close()


class _Observed(io.RawIOBase):
    """A file that passes each block read from it, in order, to `observe`."""

    def __init__(self, file: io.FileIO, observe: Callable[[memoryview], None]) -> None:
        self._file, self._observe = file, observe

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        count = self._file.readinto(buffer) or 0
        self._observe(memoryview(buffer)[:count])
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


def is_compressed(path: Path) -> bool:
    """Whether the content begins like gzip, bzip2 or zstd, whatever the file's name."""
    check_regular(path)
    with path.open("rb") as file:
        return _codec(file.read(10)) is not None


def open_binary(path: Path, *, observe: Callable[[memoryview], None] | None = None) -> BinaryIO:
    """The file's plain bytes as a buffered stream; .gz, .bz2 and .zst of any number of members.

    The content decides, not the name. A plain file's stream can seek unless it is observed.
    `observe` receives the raw (compressed) bytes in order; at the end of the stream, it has
    received all of them.

    Raises:
        InputError: no such file, no regular file, not readable, or an empty file with a compressed
            name; while reading, damaged or truncated data, with the byte reached.
    """
    check_regular(path)
    try:
        file = io.FileIO(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    raw = file if observe is None else _Observed(file, observe)
    source = io.BufferedReader(raw, _BUFFER_BYTES)
    head = source.peek(10)[:10]
    if not head and path.suffix in COMPRESSED_SUFFIXES:
        source.close()
        raise InputError(f"{path}: empty, 0 bytes, not a {path.suffix} file; fetch it again")
    codec = _codec(head)
    if codec is None:
        return source
    return io.BufferedReader(_Unpacked(source, _blocks(source, codec, path)), _BUFFER_BYTES)


_ARCHIVES = re.compile(r"\.(tar(\.\w+)?|tgz|tbz2?|zip|7z)$", re.IGNORECASE)


def natural_key(path: Path) -> tuple[list[tuple[int, int, str]], str]:
    """Sort key: by file name, its digits as numbers (..._2 before ..._10), then by path."""
    parts = re.split(r"(\d+)", path.name)
    key = [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts if part]
    return key, path.as_posix()


def plain_name(path: Path) -> str:
    """The file's name without .gz, .bz2 or .zst."""
    return path.stem if path.suffix in COMPRESSED_SUFFIXES else path.name


def find_files(inputs: Sequence[Path], *, patterns: Sequence[str], expected: str) -> list[Path]:
    """The named files, and the files in the named folders, in natural file-name order.

    Args:
        inputs: files and folders. A file is read whatever its name.
        patterns: regular expressions for names in a folder, without .gz, .bz2, .zst. Only the first
            one that matches any file is used, so that a queries file is not read as passages.
        expected: what a folder should hold, for the message.

    Raises:
        InputError: no input, no such file, an archive, one file twice, or two files that differ
            only in their compression.
    """
    problems: list[str] = [] if inputs else [f"no input named: expected {expected}"]
    found: list[Path] = []
    for path in inputs:
        if path.is_dir():
            inside = _in_folder(path, patterns)
            found += inside
            if not inside:
                problems.append(
                    f"{path}: no file of this format in the folder: expected {expected}"
                )
        elif not path.exists():
            problems.append(f"{path}: no such file or folder: expected {expected}")
        elif _ARCHIVES.search(path.name):
            problems.append(f"{path}: an archive; unpack it and name the files in it")
        else:
            found.append(path)
    problems += _twice(found)
    if problems:
        raise InputError(problems)
    return sorted(found, key=natural_key)


def _in_folder(folder: Path, patterns: Sequence[str]) -> list[Path]:
    inside = [path for path in folder.iterdir() if path.is_file() and path.name[0] not in "._"]
    for pattern in patterns:
        if matching := [path for path in inside if re.fullmatch(pattern, plain_name(path))]:
            return matching
    return []


def _twice(found: Sequence[Path]) -> list[str]:
    """Problems for files given twice: they would make every passage a duplicate."""
    problems = []
    seen: dict[Path, Path] = {}
    for path in found:
        real = path.resolve()
        plain = real.with_name(plain_name(real))
        if plain in seen:
            problems.append(f"{path}: the same file as {seen[plain]}; name one of them")
        seen.setdefault(plain, path)
    return problems
