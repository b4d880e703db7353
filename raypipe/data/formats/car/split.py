"""A file of paragraphs divided into its records, so that any range of them can be read."""

import hashlib
from collections.abc import Iterator
from itertools import islice
from typing import Any, BinaryIO

from raypipe.data.files.split import Counted, Split
from raypipe.data.formats.car.items import Item, read_items


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


def _records(stream: BinaryIO, *, name: str, at: int, first: int, skip: int) -> Iterator[Item]:
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


PARAGRAPHS = Split(place=_place, count=count_paragraphs, records=_records, replaced=_replaced)
