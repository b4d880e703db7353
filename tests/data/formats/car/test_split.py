import hashlib
import io

import pytest
from car_files import paragraph, with_head, words

from raypipe.data.formats.car import PARAGRAPHS, count_paragraphs

RECORDS = [paragraph(f"p{n}", words("x" * n)) for n in range(7)]


@pytest.mark.parametrize("made", [lambda *r: b"".join(r), lambda *r: with_head(2, *r)])
@pytest.mark.parametrize("every", [1, 2, 3, 7, 100])
def test_counting_notes_where_records_begin_and_what_stands_between(made, every):
    data = made(*RECORDS)
    counted = count_paragraphs(io.BytesIO(data), "file", every)
    assert counted.num_records == 7
    starts = [data.index(record) for record in RECORDS[::every]]
    starts[0] = 0  # a head belongs to the first record
    assert counted.checkpoints == tuple(starts)
    parts = [data[a:b] for a, b in zip(starts, [*starts[1:], len(data)], strict=True)]
    assert counted.stretches == tuple(hashlib.sha256(part).hexdigest() for part in parts)
    for start, first in zip(starts[1:], range(every, 7, every), strict=True):
        stream = io.BytesIO(data[start:])
        found = PARAGRAPHS.records(stream, name="file", at=start, first=first, skip=1)
        assert [item.value[1] for item in found] == [b"p%d" % n for n in range(first + 1, 7)]


def test_no_records_are_no_stretches():
    assert count_paragraphs(io.BytesIO(b""), "file", 3) == (0, (), ())
    assert count_paragraphs(io.BytesIO(with_head(2)), "file", 3) == (0, (), ())


def test_bytes_that_are_not_utf8_are_replaced_in_texts_alone():
    found = PARAGRAPHS.records(
        io.BytesIO(paragraph(b"p\xff", words(b"a\xffb\xc3\xa9"))),
        name="file",
        at=0,
        first=0,
        skip=0,
    )
    assert [PARAGRAPHS.replaced(item).value for item in found] == [
        [0, b"p\xff", [[0, "a\ufffdbé"]]]
    ]
