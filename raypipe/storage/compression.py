"""Files as streams of plain bytes, whatever their compression, read and written.

fsspec's `compression="infer"` looks at names alone, and does not see that zstd data are cut off.
"""

import bz2
import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple

from raypipe.errors import InputError
from raypipe.regular import MAX_RATIO, check_ratio, check_regular
from raypipe.storage.files import replacing

COMPRESSED_SUFFIXES = (".gz", ".bz2", ".zst")
_BUFFER_BYTES = 1 << 20
_ZSTD_SKIPPABLE = tuple(bytes([low]) + b"\x2a\x4d\x18" for low in range(0x50, 0x60))


MAX_WINDOW_BYTES = 128 << 20
"""Memory that a zstd frame may ask for; also the most that `zstd -d` gives without an option."""


class _Codec(NamedTuple):
    name: str
    new: Callable[[], Any]
    """A decoder of one gzip or bzip2 member or zstd frame, with `eof` and `unused_data`."""
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
        lambda: zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES).decompressobj(),
        lambda decoder, data: iter([decoder.decompress(data)]),
        2 << 10,
        zstandard.ZstdError,
    )


_PARQUET = (
    "write it as Parquet: to_parquet(PATH) of a Hugging Face Dataset (datasets.load_from_disk) or "
    "of pandas (read_feather)"
)
_OTHERS = {
    b"\xfd7zXZ\0": ("xz data", "unpack it: xz -d FILE"),
    b"PK\x03\x04": ("a zip archive", "unpack it: unzip FILE"),
    b"7z\xbc\xaf\x27\x1c": ("a 7z archive", "unpack it: 7z x FILE"),
    b"\x04\x22\x4d\x18": ("lz4 data", "unpack it: lz4 -d FILE"),
    b"\x1f\x9d": ("data of compress", "unpack it: gzip -d FILE"),
    b"ARROW1": ("an Arrow file", _PARQUET),
    b"\xff\xff\xff\xff": ("an Arrow stream", _PARQUET),
}
"""The first bytes of what is not read -> its name, and what makes a file of it that is."""
_TAR_AT = 257
_TAR = b"ustar"


def _refuse_others(path: Path, head: bytes) -> None:
    """Returns nothing if bytes that begin so, of a file or unpacked from it, may be content.

    Raises:
        InputError: they are an archive, or packed as none of the formats that are read.
    """
    for magic, (name, remedy) in _OTHERS.items():
        if head.startswith(magic):
            raise InputError(
                f"{path}: expected plain text, gzip, bzip2 or zstd, found {name}; {remedy}"
            )
    if head[_TAR_AT : _TAR_AT + len(_TAR)] == _TAR:
        raise InputError(
            f"{path}: expected a file, found a tar archive of files; unpack it: tar xf FILE"
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


def _blocks(source: BinaryIO, codec: _Codec, path: Path, *, wary: bool) -> Iterator[bytes]:
    """The unpacked bytes of every member; InputError if it is truncated, damaged or a bomb."""
    decoder, reached, taken, num_packed = codec.new(), 0, 0, path.stat().st_size
    head = b""
    begun = False
    while data := source.read(codec.chunk_bytes):
        while data:
            if decoder.eof:
                data = data.lstrip(b"\0")  # padding after the last member is allowed
                if not data:
                    break
                decoder, head = codec.new(), b""
            head = (head + data)[:_ZSTD_HEAD_BYTES]
            try:
                for block in codec.feed(decoder, data):
                    if block and not begun:
                        begun = True
                        _refuse_others(path, bytes(block[: _TAR_AT + len(_TAR)]))
                    reached += len(block)
                    check_ratio(path, num_packed, reached)
                    left = len(getattr(decoder, "unconsumed_tail", b""))
                    if wary and reached > MAX_RATIO * (taken + len(data) - left):
                        wary = False
                        with open_binary(path) as whole:  # a bomb ends here
                            while whole.read(_BUFFER_BYTES):
                                pass
                    yield block
            except codec.error as error:
                if codec.name == "zstd":
                    _refuse_window(path, head)
                raise InputError(
                    f"{path}: damaged {codec.name} data after byte {reached:,} of the unpacked"
                    f" text ({error}); fetch the file again"
                ) from error
            unused = decoder.unused_data if decoder.eof else b""
            taken += len(data) - len(unused)
            data = unused
    if not decoder.eof:
        raise InputError(
            f"{path}: cut off: the {codec.name} data stop after byte {reached:,} of the unpacked"
            " text, before their end mark; fetch the file again"
        )


_ZSTD_HEAD_BYTES = 18
"""The longest header of a frame."""


def _refuse_window(path: Path, head: bytes) -> None:
    """Returns nothing if the frame that begins so asks for no more than `MAX_WINDOW_BYTES`.

    Raises:
        InputError: a larger window, as `zstd --long=28` or more makes.
    """
    import zstandard

    try:
        window = zstandard.get_frame_parameters(head).window_size
    except zstandard.ZstdError:  # no frame at all
        return
    if window > MAX_WINDOW_BYTES:
        raise InputError(
            f"{path}: expected zstd data with a window of at most {MAX_WINDOW_BYTES >> 20} MiB, "
            f"found {window / (1 << 20):,.0f} MiB, as `zstd --long` makes; pack it again: "
            "zstd -d --long=31 -c FILE | zstd -o OTHER"
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


def open_binary(
    path: Path, *, observe: Callable[[memoryview], None] | None = None, wary: bool = False
) -> BinaryIO:
    """The file's plain bytes as a buffered stream; .gz, .bz2 and .zst of any number of members.

    The content decides, not the name. A plain file's stream can seek unless it is observed.
    `observe` receives the raw (compressed) bytes in order; at the end of the stream, it has
    received all of them. `wary` is for a reader that holds all that it reads: data that seem to
    unpack to too much (`check_ratio`) are unpacked to their end before more of them are given.

    Raises:
        InputError: no such file, no regular file, not readable, an archive or data packed as none
            of these, or an empty file with a compressed name; while reading, damaged or truncated
            data, with the byte reached, or an archive within.
    """
    check_regular(path)
    try:
        file = io.FileIO(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    raw = file if observe is None else _Observed(file, observe)
    source = io.BufferedReader(raw, _BUFFER_BYTES)
    head = source.peek(_BUFFER_BYTES)
    if not head and path.suffix in COMPRESSED_SUFFIXES:
        source.close()
        raise InputError(f"{path}: empty, 0 bytes, not a {path.suffix} file; fetch it again")
    codec = _codec(head[:10])
    if codec is None:
        try:
            _refuse_others(path, head)
        except InputError:
            source.close()
            raise
        return source
    return io.BufferedReader(
        _Unpacked(source, _blocks(source, codec, path, wary=wary)), _BUFFER_BYTES
    )


@contextmanager
def replacing_compressed(path: Path) -> Iterator[IO[bytes]]:
    """A file to write that then replaces `path`: see `replacing`.

    A file whose name ends in .gz, .bz2 or .zst is compressed, without a time stamp.
    """
    with replacing(path) as raw, _compressing(raw, path.suffix) as out:
        yield out


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
