"""TREC CAR's paragraph collections, versions 1.5 and 2.0: CBOR records with the byte of each.

Version 1.5 is one record after another. Version 2.0 has a head that names the kind of file, then a
list of unknown length that holds the records and ends with a mark.

`trec-car` has a blank between the parts of a text, as the code of Nogueira & Cho 2019, and
`trec-car-tools` has nothing there, as TREC CAR's own tools: word pieces around links differ.
"""

import hashlib
import io
from collections.abc import Iterator
from itertools import islice
from typing import Any, BinaryIO, Literal, NamedTuple, NoReturn

from cbor2 import CBORDecodeEOF, CBORDecodeError, CBORDecoder

from raypipe.data.formats.fields import checked_id
from raypipe.data.records import Counted, RecordSplit
from raypipe.errors import InputError

Kind = Literal["pages", "outlines", "paragraphs"]
KINDS: tuple[Kind, ...] = ("pages", "outlines", "paragraphs")
"""Kinds of file, by their number in its head."""
MOST_BYTES = {"paragraphs": 4 << 20, "outlines": 32 << 20, "pages": 32 << 20}
"""Most bytes of a record. A byte of CBOR becomes at most 80 in memory. Version 2.0's pages list all
links to them."""
READ_BYTES = 1 << 20
MOST_NESTED = 100
"""Sections in sections; Wikipedia has six levels."""
LIST_OF_UNKNOWN_LENGTH, END_MARK = 0x9F, 0xFF
# TREC CAR uses no tags. Those that cbor2 understands could make a small file large or cyclic.
_TAGS = (*range(6), 25, 28, 29, 30, 35, 36, 37, 100, 256, 258, 260, 261, 1004, 43000, 55799)


class Item(NamedTuple):
    """A record."""

    offset: int
    """Its first byte in the uncompressed file."""
    value: Any
    """Lists, integers, byte strings and texts. A byte that is not UTF-8 is a surrogate escape."""
    raw: bytes
    """Its bytes, with the head's before the first record, and the end mark after the last."""


def read_items(stream: BinaryIO, *, name: str, kind: Kind, at: int = 0) -> Iterator[Item]:
    """The records in order; memory holds one of them and 1 MiB.

    Args:
        stream: bytes, read from its current position to its end.
        name: the file's name, for messages.
        kind: what the file holds; checked where it has a head.
        at: the byte at which the stream stands; a record begins there if it is not 0.

    Raises:
        InputError: damaged or cut off, with the byte of the record; another kind of file; a record
            above `MOST_BYTES`, or nested deeper than `MOST_NESTED`.
    """
    source = _Source(stream, name, at, MOST_BYTES[kind])
    in_list = at > 0  # of a file that is read from its middle, only the end mark would tell
    ended = False
    while not ended and source.peek() is not None:
        offset, value = source.offset, source.decoded()
        head = offset == 0 and isinstance(value, list) and value[:1] == ["CAR"]
        if head:
            _check_head(source, value, kind)
            in_list = True
        ended = in_list and source.peek() == END_MARK
        if ended:
            source.skip()
        if not head:
            yield Item(offset, value, source.taken())
    if ended and source.peek() is not None:
        source.refuse(f"bytes after the mark that ends the list, at {source.offset:,}")
    if in_list and not ended and at == 0:
        source.refuse(
            f"cut off: the file ends at byte {source.offset:,}, before the mark that ends its list;"
            " fetch the file again"
        )


def _check_head(source: "_Source", head: list[Any], kind: Kind) -> None:
    number = head[1][0] if len(head) > 1 and isinstance(head[1], list) and head[1] else None
    actual = KINDS[number] if type(number) is int and 0 <= number < len(KINDS) else "unknown"
    # Pages have all that outlines have.
    if actual != kind and not (kind == "outlines" and actual == "pages"):
        source.refuse(f"expected a file of {kind}, found {actual} in its head; name another file")
    if source.peek() != LIST_OF_UNKNOWN_LENGTH:
        source.refuse(f"expected a list of records after the head, at byte {source.offset:,}")
    source.skip()


class _Source:
    """A block of the stream that moves forward, and grows until it holds a whole item."""

    def __init__(self, stream: BinaryIO, name: str, at: int, most_bytes: int) -> None:
        self._stream, self._name, self._most_bytes = stream, name, most_bytes
        self._base, self._block = at, b""
        self._taken = self._place = 0  # in the block: what was handed out, what was decoded
        self._open()

    def _open(self) -> None:
        self._bytes = io.BytesIO(self._block)
        self._bytes.seek(self._place)
        self._decoder = CBORDecoder(
            self._bytes,
            str_errors="surrogateescape",
            max_depth=MOST_NESTED,
            strict_hashable_types=True,
            semantic_decoders=dict.fromkeys(_TAGS, _refuse_tag),
            tag_hook=_refuse_tag,
        )

    @property
    def offset(self) -> int:
        """The next byte's place in the file."""
        return self._base + self._place

    def peek(self) -> int | None:
        """The next byte; None at the end."""
        if self._place == len(self._block) and not self._grow():
            return None
        return self._block[self._place]

    def skip(self) -> None:
        """Pass over the byte that was peeked at."""
        self._place += 1
        self._bytes.seek(self._place)

    def taken(self) -> bytes:
        """All bytes since the last call."""
        start, self._taken = self._taken, self._place
        return self._block[start : self._place]

    def decoded(self) -> Any:
        """The next item."""
        while True:
            try:
                value = self._decoder.decode()
            except CBORDecodeEOF:
                if len(self._block) - self._place > self._most_bytes:
                    self.refuse(
                        f"the record at byte {self.offset:,} is longer than"
                        f" {self._most_bytes:,} bytes: damaged, or no TREC CAR file"
                    )
                if not self._grow():
                    self.refuse(
                        f"cut off: the record at byte {self.offset:,} does not end before the file"
                        f" does, at byte {self._base + len(self._block):,}; fetch the file again"
                    )
            except (CBORDecodeError, ValueError) as error:
                self.refuse(
                    f"the record at byte {self.offset:,} is damaged, or no CBOR ({error}); fetch"
                    " the file again"
                )
            else:
                self._place = self._bytes.tell()
                return value

    def _grow(self) -> bool:
        """Whether there were more bytes; the block then begins at what was not taken yet."""
        rest = len(self._block) - self._place
        # Eight times as much, so that a long record is decoded a few times, up to the limit.
        more = self._stream.read(max(READ_BYTES, min(7 * rest, self._most_bytes + 1 - rest)))
        self._base += self._taken
        self._block = self._block[self._taken :] + more
        self._place, self._taken = self._place - self._taken, 0
        self._open()
        return bool(more)

    def refuse(self, problem: str) -> NoReturn:
        """Raise InputError with the file's name."""
        raise InputError(f"{self._name}: {problem}")


def _refuse_tag(*_: object) -> NoReturn:
    raise ValueError("a tag, which TREC CAR does not use")


def with_blanks(item: Item) -> tuple[str, str]:
    """Id and text; a blank between the parts of the text, which links begin and end.

    So "see [New York], ..." becomes "see  New York , ...". Source: nyu-dl/dl4marco-bert, the code
    of Nogueira & Cho 2019.

    Raises:
        ValueError: not a paragraph.
    """
    return paragraph_id(item.value), " ".join(_parts(item.value))


def without_blanks(item: Item) -> tuple[str, str]:
    """Id and text as on the page; source: TREC CAR's own tools, and ir_datasets.

    Raises:
        ValueError: not a paragraph.
    """
    return paragraph_id(item.value), "".join(_parts(item.value))


def paragraph_id(record: Any) -> str:
    """The id of a paragraph's record.

    Raises:
        ValueError: not a paragraph.
    """
    kinds = [type(each) for each in record] if type(record) is list else []
    if kinds[1:4] == [str, bytes, list]:
        raise ValueError("a page, not a paragraph; name the file of paragraphs")
    if kinds != [int, bytes, list] or record[0] != 0:
        raise ValueError("not a paragraph: expected 0, an id and a list")
    return text_of(record[1], "paragraph id")


def text_of(name: bytes, field: str) -> str:
    """An id as text.

    Raises:
        ValueError: not UTF-8, empty, or with white space or control characters in it.
    """
    return checked_id(name.decode(), field=field)


def _parts(record: Any) -> Iterator[str]:
    for number, body in enumerate(record[2], 1):  # plain comparisons: match takes twice as long
        tag, part = body if type(body) is list and len(body) == 2 else (None, None)
        if tag == 1:  # link: a number, page, section, page id, anchor text
            part = part[4] if type(part) is list and len(part) == 5 else None
        if tag not in (0, 1) or type(part) is not str:
            raise ValueError(f"part {number} of the paragraph is neither text nor a link")
        yield part


def count_paragraphs(stream: BinaryIO, name: str, every: int) -> Counted:
    """The paragraphs of a stream; the head of a file belongs to its first stretch.

    Raises:
        InputError: see `read_items`.
    """
    checkpoints: list[int] = []
    stretches: list[str] = []
    num_records, stretch = 0, hashlib.sha256()
    for item in read_items(stream, name=name, kind="paragraphs"):
        if num_records % every == 0:
            if num_records:
                stretches.append(stretch.hexdigest())
                stretch = hashlib.sha256()
            checkpoints.append(item.offset if num_records else 0)
        stretch.update(item.raw)
        num_records += 1
    if num_records:
        stretches.append(stretch.hexdigest())
    return Counted(num_records, tuple(checkpoints), tuple(stretches))


def _paragraphs(stream: BinaryIO, *, name: str, at: int, first: int, skip: int) -> Iterator[Item]:
    return islice(read_items(stream, name=name, kind="paragraphs", at=at), skip, None)


def _replaced(item: Item) -> Item:
    return item._replace(value=_in_utf8(item.value))


def _in_utf8(value: Any) -> Any:
    """The value with U+FFFD for each byte that is not UTF-8 in a text."""
    if isinstance(value, list):
        return [_in_utf8(each) for each in value]
    if isinstance(value, str):
        return value.encode(errors="surrogateescape").decode(errors="replace")
    return value


def _place(number: int, item: Item) -> str:
    return f"record {number:,}, at byte {item.offset:,}"


PARAGRAPHS = RecordSplit(
    place=_place, count=count_paragraphs, records=_paragraphs, replaced=_replaced
)
