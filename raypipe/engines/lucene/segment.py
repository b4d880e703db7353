"""A Lucene segment's description (`.si`) without the parts that differ between runs.

Lucene records the time, the kernel and the Java build there, in the order of a map that Java
shuffles in each process; the list of files has such an order too.

Source: Lucene99SegmentInfoFormat and CodecUtil, Lucene 9.9.
"""

import zlib
from pathlib import Path

from raypipe.errors import CorruptError

_FOOTER_BYTES = 16


def make_timeless(folder: Path) -> None:
    """Rewrite every `.si`: no diagnostics, sorted files and attributes, a corrected checksum.

    Raises:
        CorruptError: a file does not have the layout of Lucene 9.9.
    """
    for path in sorted(folder.glob("*.si")):
        path.write_bytes(_rewritten(path.name, path.read_bytes()))


def _rewritten(name: str, data: bytes) -> bytes:
    fixed = _end_of_fixed_part(data)
    # Lucene 9.9 added one byte (has blocks) after the fixed part; the right layout is the one that
    # ends exactly at the footer.
    for start in (fixed, fixed + 1):
        reader = _Reader(data, start)
        try:
            reader.strings(2)
            files, attributes = reader.strings(1), reader.strings(2)
            sort_fields = reader.number()
        except (IndexError, UnicodeDecodeError):
            continue
        if reader.at == len(data) - _FOOTER_BYTES and sort_fields == 0:
            body = (
                data[:start] + _strings([]) + _strings(sorted(files)) + _strings(sorted(attributes))
            )
            body += b"\0" + data[-_FOOTER_BYTES:-8]
            return body + zlib.crc32(body).to_bytes(8, "big")
    raise CorruptError(f"{name}: not a segment description of Lucene 9.9 without index sort")


def _end_of_fixed_part(data: bytes) -> int:
    codec_length = data[4]
    at = 5 + codec_length + 4 + 16  # magic, name, version, id
    at += 1 + data[at]  # suffix
    at += 12  # version of Lucene
    at += 13 if data[at] else 1  # minimum version, if there is one
    return at + 4 + 1  # documents, compound file


class _Reader:
    def __init__(self, data: bytes, at: int) -> None:
        self._data, self.at = data, at

    def number(self) -> int:
        """A variable-length int: seven bits per byte, lowest first."""
        value = shift = 0
        while True:
            byte = self._data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def strings(self, width: int) -> list[tuple[str, ...]]:
        """A set (width 1) or map (width 2) of strings, in the order of the file."""
        return [tuple(self._string() for _ in range(width)) for _ in range(self.number())]

    def _string(self) -> str:
        length = self.number()
        start, self.at = self.at, self.at + length
        if self.at > len(self._data):
            raise IndexError
        return self._data[start : self.at].decode()


def _strings(entries: list[tuple[str, ...]]) -> bytes:
    texts = [text.encode() for entry in entries for text in entry]
    return _number(len(entries)) + b"".join(_number(len(text)) + text for text in texts)


def _number(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
