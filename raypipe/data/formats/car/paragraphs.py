"""A paragraph's record as its id and text."""

from collections.abc import Iterator
from typing import Any

from raypipe.data.formats.car.items import Item
from raypipe.data.formats.fields import checked_id


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
