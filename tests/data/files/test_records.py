import hashlib
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raypipe.data.records import LINES, count_lines, lines
from raypipe.errors import InputError

BOM = b"\xef\xbb\xbf"


def split(content: bytes, **options) -> list[bytes]:
    return list(lines(io.BytesIO(content), **options))


@pytest.mark.parametrize(
    ("content", "records"),
    [
        (b"", []),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"a\nb", [b"a", b"b"]),
        (b"a\n\n", [b"a", b""]),
        (b"\n", [b""]),
        (b"a\r\nb\r\n", [b"a", b"b"]),
        (b"a\r\r\n", [b"a\r"]),
        (b"a\rb\n", [b"a\rb"]),
        (b"a\nb\r", [b"a", b"b"]),
        (BOM + b"a\n" + BOM + b"b\n", [b"a", BOM + b"b"]),
    ],
)
def test_only_a_newline_ends_a_record(content, records):
    assert split(content) == records


@pytest.mark.parametrize("text", ["\u2028", "\u2029", "\u0085", "\v", "\f", "\0", "\x1c", '"', "'"])
def test_characters_that_other_readers_split_at_survive(text):
    record = f"1\tbefore{text}after".encode()
    assert split(record + b"\n" + record) == [record, record]


def test_a_line_longer_than_many_chunks_survives():
    long = bytes(range(1, 10)) * 700_000  # 6.3 MB
    assert split(b"a\n" + long + b"\nb") == [b"a", long, b"b"]


@pytest.mark.parametrize("end", [b"\n", b""])
def test_a_line_above_the_bound_is_refused_by_its_number(end):
    assert split(b"a\n" + b"x" * 100 + end, max_line_bytes=100) == [b"a", b"x" * 100]
    with pytest.raises(InputError, match=r"big\.tsv: line 2: longer than 100 bytes"):
        split(b"a\n" + b"x" * 101 + end, max_line_bytes=100, name="big.tsv")


@pytest.mark.fault(32, "an endless line is refused before it is held")
def test_an_endless_line_is_refused_before_it_is_held():
    class Endless(io.RawIOBase):
        num_read = 0

        def read(self, size=-1):
            self.num_read += size
            return b"x" * size

    stream = Endless()
    with pytest.raises(InputError, match="line 1: longer than"):
        next(lines(stream, max_line_bytes=4 << 20))
    assert stream.num_read <= 6 << 20


def test_the_number_in_the_message_counts_first_and_skip():
    with pytest.raises(InputError, match="line 104:"):
        split(b"a\nb\nc\n" + b"x" * 9, first=100, skip=2, max_line_bytes=5)


def test_a_bom_is_stripped_from_record_0_only():
    content = BOM + b"a\nb\n"
    assert split(content, first=7) == [BOM + b"a", b"b"]
    assert split(content, skip=1) == [b"b"]


def by_hand(content: bytes) -> list[bytes]:
    whole = content.split(b"\n")
    if whole[-1] == b"":
        whole.pop()
    if whole:
        whole[0] = whole[0].removeprefix(BOM)
    return [line[:-1] if line.endswith(b"\r") else line for line in whole]


contents = st.lists(
    st.sampled_from([b"\n", b"\r", b"\r\n", b"a", b"\t", BOM, b"\0", b"\xff", b"\xe2\x80\xa8"]),
    max_size=30,
).map(b"".join)


@given(contents, st.integers(0, 12), st.integers(1, 5))
def test_lines_equal_a_split_by_hand_whatever_the_chunks(content, skip, chunk_bytes):
    class Trickle(io.BytesIO):
        def read(self, size=-1):
            return super().read(min(size, chunk_bytes))

    assert list(lines(Trickle(content), skip=skip)) == by_hand(content)[skip:]
    if b"\n" not in content and b"\r" in content.rstrip(b"\r"):
        with pytest.raises(InputError, match="no line feed in the file"):
            list(lines(Trickle(content), of_many=True))
    else:
        assert list(lines(Trickle(content), of_many=True)) == by_hand(content)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_utf_16_and_32_are_refused_by_their_byte_order_marks(encoding):
    content, form = "\ufeffq1\ta\n".encode(encoding), encoding.upper()[:6]
    with pytest.raises(InputError) as caught:
        list(lines(io.BytesIO(content), name="q.tsv"))
    assert str(caught.value) == (
        f"q.tsv: expected UTF-8, found {form}; convert it: iconv -f {form} -t UTF-8 FILE"
    )


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
