"""TREC CAR's files from a small encoder of CBOR (RFC 8949), as the collection's own tools write it.

Lists of sections, paragraphs and parts of texts are of unknown length, and end with a mark.
"""

from collections.abc import Sequence

MARK = b"\xff"


def head(kind: int, size: int) -> bytes:
    """The first bytes of an item of a major type: its size in the shortest form."""
    if size < 24:
        return bytes([kind << 5 | size])
    for code, width in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if size < 1 << 8 * width:
            return bytes([kind << 5 | code]) + size.to_bytes(width, "big")
    raise ValueError(size)


def number(value: int) -> bytes:
    return head(0, value)


def name(text: str | bytes) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    return head(2, len(data)) + data


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return head(3, len(data)) + data


def fixed(*items: bytes) -> bytes:
    return head(4, len(items)) + b"".join(items)


def unknown(items: Sequence[bytes]) -> bytes:
    return b"\x9f" + b"".join(items) + MARK


def words(value: str | bytes) -> bytes:
    """A part of a paragraph."""
    return fixed(number(0), text(value))


def link(anchor: str, section: str | None = None) -> bytes:
    """The other part of a paragraph."""
    sections = fixed() if section is None else fixed(text(section))
    return fixed(
        number(1), fixed(number(0), text("Page"), sections, name("Page%20id"), text(anchor))
    )


def paragraph(paragraph_id: str | bytes, *parts: bytes) -> bytes:
    return fixed(number(0), name(paragraph_id), unknown(parts))


def under(paragraph_id: str) -> bytes:
    """A paragraph as a part of a page."""
    return fixed(number(1), paragraph(paragraph_id, words("x")))


def section(heading_id: str, *parts: bytes) -> bytes:
    return fixed(number(0), text(heading_id), name(heading_id), unknown(parts))


def page(page_id: str, *parts: bytes) -> bytes:
    """A page of version 1.5."""
    return fixed(number(0), text(page_id), name(page_id), unknown(parts))


def page_2(page_id: str, *parts: bytes) -> bytes:
    """A page of version 2.0: an article, with the titles that are redirected to it."""
    facts = fixed(fixed(number(0)), fixed(text("Other name")))
    article = fixed(number(0))
    return fixed(number(0), text(page_id), name(page_id), unknown(parts), article, facts)


def with_head(kind: int, *records: bytes) -> bytes:
    """A file of version 2.0: pages 0, outlines 1, paragraphs 2."""
    return fixed(text("CAR"), fixed(number(kind)), fixed(text("made by"))) + unknown(records)
