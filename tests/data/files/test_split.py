import hashlib
import io

from raypipe.data.split import LINES, count_lines


def test_lines_are_counted_with_the_places_of_every_other():
    data = b"a\nbb\nccc\n\ne"
    counted = count_lines(io.BytesIO(data), "file", 2)
    assert counted.num_records == 5 and counted.checkpoints == (0, 5, 10)
    parts = (b"a\nbb\n", b"ccc\n\n", b"e")
    assert counted.stretches == tuple(hashlib.sha256(part).hexdigest() for part in parts)
    assert count_lines(io.BytesIO(b""), "file", 2) == (0, (), ())


def test_lines_are_read_from_one_of_them_on_and_what_is_not_utf8_is_replaced():
    found = LINES.records(io.BytesIO(b"ccc\n\ne"), name="file", at=5, first=2, skip=1)
    assert [*found] == [b"", b"e"]
    assert LINES.replaced(b"a\xffb") == b"a\xef\xbf\xbdb"
