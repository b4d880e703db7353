import io

import pytest
from car_files import (
    MARK,
    fixed,
    head,
    name,
    number,
    page,
    paragraph,
    section,
    text,
    unknown,
    with_head,
    words,
)

from raypipe.data.formats import car as items
from raypipe.data.formats.car import MOST_BYTES, MOST_NESTED, READ_BYTES, read_items
from raypipe.errors import InputError

FIRST, SECOND, THIRD = (paragraph(f"p{n}", words("x" * n)) for n in (1, 30, 300))


def read(data, kind="paragraphs", at=0):
    return list(read_items(io.BytesIO(data), name="file", kind=kind, at=at))


def refusal(data, kind="paragraphs", at=0):
    with pytest.raises(InputError) as found:
        read(data, kind, at)
    (problem,) = found.value.problems
    return problem


def test_records_come_one_after_another_with_the_byte_of_each_and_all_bytes():
    data = FIRST + SECOND + THIRD
    found = read(data)
    assert [item.offset for item in found] == [0, len(FIRST), len(FIRST + SECOND)]
    assert [item.raw for item in found] == [FIRST, SECOND, THIRD]
    assert found[0].value == [0, b"p1", [[0, "x"]]]
    assert read(b"") == []
    # RFC 8949 by hand: [0, h'61', [_ [0, "b"]]]
    assert read(bytes.fromhex("83 00 41 61 9f 82 00 61 62 ff"))[0].value == [0, b"a", [[0, "b"]]]


def test_a_file_with_a_head_has_the_same_records_and_its_bytes_belong_to_first_and_last():
    data = with_head(2, FIRST, SECOND)
    found = read(data)
    assert [item.value for item in found] == [item.value for item in read(FIRST + SECOND)]
    assert b"".join(item.raw for item in found) == data
    assert [data.index(FIRST), data.index(SECOND)] == [item.offset for item in found]
    assert read(with_head(2)) == []
    assert len(read(FIRST + with_head(2, SECOND))) == 3  # a head further on is a strange record


@pytest.mark.parametrize("made", [lambda *r: b"".join(r), lambda *r: with_head(2, *r)])
def test_a_file_is_read_from_any_record_on(made):
    data = made(FIRST, SECOND, THIRD)
    whole = read(data)
    for item in whole[1:]:
        rest = read(data[item.offset :], at=item.offset)
        assert [(i.offset, i.value) for i in rest] == [
            (i.offset, i.value) for i in whole if i.offset >= item.offset
        ]


def test_records_are_the_same_whatever_the_size_of_a_block(monkeypatch):
    data = with_head(2, FIRST, SECOND, THIRD, FIRST)
    expected = read(data)
    for size in (1, 2, 3, 7, 64, len(data) - 1, len(data)):
        monkeypatch.setattr(items, "READ_BYTES", size)
        assert read(data) == expected


def test_a_record_of_many_blocks_is_decoded_a_few_times(monkeypatch):
    class Counted(io.BytesIO):
        reads = 0

        def read(self, size=-1):
            self.reads += 1
            return super().read(size)

    monkeypatch.setattr(items, "READ_BYTES", 1)
    stream = Counted(paragraph("p", words("x" * 4096)))
    assert len(list(read_items(stream, name="file", kind="paragraphs"))) == 1
    assert stream.reads < 20


def test_a_record_of_several_blocks_is_read():
    long = paragraph("p", words("é" * READ_BYTES))
    (item, last) = read(long + FIRST)
    assert item.value[2][0][1] == "é" * READ_BYTES and last.offset == len(long)


@pytest.mark.parametrize("made", [lambda *r: b"".join(r), lambda *r: with_head(2, *r)])
def test_a_file_that_is_cut_anywhere_is_told_with_the_byte_of_the_record(made):
    data = made(FIRST, SECOND)
    ends = {0, len(FIRST)} if made(b"") == b"" else {0}
    for stop in range(len(data)):
        if stop in ends:  # of version 1.5 nothing says that a whole record is missing
            read(data[:stop])
            continue
        problem = refusal(data[:stop])
        assert problem.startswith("file: ") and (
            "cut off" in problem or "after the head" in problem
        )
        assert f"at byte {stop:,}" in problem or "expected a list" in problem
    record = f"the record at byte {len(FIRST)} does not end before the file does"
    assert record in refusal((FIRST + SECOND)[:-1])


def test_a_broken_byte_is_told_with_the_byte_of_its_record():
    broken = bytearray(FIRST + SECOND)
    broken[len(FIRST) + 1] = 0x1C  # no such number
    assert f"the record at byte {len(FIRST)} is damaged" in refusal(bytes(broken))
    assert "the record at byte 0 is damaged" in refusal(MARK + FIRST)
    assert "bytes after the mark that ends the list, at" in refusal(with_head(2, FIRST) + FIRST)
    assert "the record at byte 7 is damaged" in refusal(b"\x1c", at=7)


def test_a_file_of_another_kind_is_refused_by_its_head():
    assert "expected a file of paragraphs, found outlines in its head" in refusal(with_head(1))
    assert "expected a file of pages, found paragraphs" in refusal(with_head(2), kind="pages")
    assert "found unknown in its head" in refusal(with_head(3))
    for bad in (fixed(text("CAR")), fixed(text("CAR"), fixed()), fixed(text("CAR"), text("2"))):
        assert "found unknown in its head" in refusal(bad + unknown([]))
    assert len(read(with_head(0, page("a")), kind="outlines")) == 1  # pages have all of them


@pytest.mark.parametrize(
    "hostile",
    [
        head(3, 1 << 62) + b"x",
        head(2, 1 << 40) + b"x",
        head(4, 1 << 62) + b"\0",
        head(4, 1 << 30) + b"\0",
        head(5, 1 << 62) + b"\x61a\0",
        b"\x9f",
        b"\x7f",
    ],
    ids=["text", "bytes", "list", "long list", "map", "open list", "open text"],
)
def test_a_size_that_no_file_has_ends_at_the_limit_of_a_record(hostile, monkeypatch):
    monkeypatch.setitem(MOST_BYTES, "paragraphs", 1 << 18)
    assert "cut off: the record at byte 0" in refusal(hostile)
    problem = refusal(hostile + b"\0" * (1 << 19))
    assert "longer than 262,144 bytes" in problem or "is damaged" in problem


@pytest.mark.parametrize("kind", [b"\x81", b"\x9f", b"\xa1"])
def test_what_is_nested_too_deeply_is_damaged(kind):
    deep = kind * (MOST_NESTED + 1) + number(0)
    assert "depth" in refusal(deep)


@pytest.mark.parametrize(
    "tagged",
    [
        b"\xd8\x1c\x81\xd8\x1d\x00",  # a list in itself
        b"\xd9\x01\x00" + fixed(text("abcd"), b"\xd8\x19\x00"),  # a text, and again
        b"\xc2" + name(b"\xff" * 9),
        b"\xc5" + fixed(number(1 << 40), number(3)),
        b"\xd8\x23" + text("(a+)+$"),
        b"\xd9\xd9\xf7" + number(1),
        b"\xda\x00\x01\x00\x00" + number(1),
    ],
    ids=["cycle", "repeated", "large number", "float", "pattern", "self-described", "unknown"],
)
def test_tags_are_refused(tagged):
    assert "the record at byte 0 is damaged" in refusal(fixed(number(0), tagged))


def test_sections_may_be_as_deep_as_wikipedia_has_them():
    parts = ()
    for level in range(12):
        parts = (section(f"s{level}", *parts),)
    assert len(read(page("p", *parts), kind="pages")) == 1
