import gzip

import pytest
from car_files import link, paragraph, with_head, words

from raypipe.data.facts import count_file
from raypipe.data.formats.registry import FORMATS
from raypipe.data.reading import Tally, read_records
from raypipe.errors import CorruptError, InputError

RECORDS = [paragraph(f"p{n}", words(f"text {n}"), link("link")) for n in range(9)]
TEXTS = {"trec-car": "text {} link", "trec-car-tools": "text {}link"}


def read(path, facts, start=0, stop=None, form="trec-car", **more):
    stop = facts.num_records if stop is None else stop
    return list(read_records(path, format=form, start=start, stop=stop, facts=facts, **more))


@pytest.mark.parametrize("form", TEXTS)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("made", [lambda *r: b"".join(r), lambda *r: with_head(2, *r)])
def test_any_range_of_paragraphs_is_read_alone(tmp_path, made, pack, form):
    path = tmp_path / "c.cbor"
    path.write_bytes(pack(made(*RECORDS)))
    facts = count_file(path, format=form, checkpoint_records=2)
    expected = [(f"p{n}", TEXTS[form].format(n)) for n in range(9)]
    assert read(path, facts, form=form) == expected
    for start in range(10):
        for stop in range(start, 10):
            assert read(path, facts, start, stop, form) == expected[start:stop]


def test_a_folder_has_one_file_of_paragraphs(tmp_path):
    for name in ("train.test200.cbor", "t.cbor.outlines", "t.cbor.paragraphs.gz"):
        (tmp_path / name).write_bytes(b"")
    assert [path.name for path in FORMATS["trec-car"].files([tmp_path])] == ["t.cbor.paragraphs.gz"]
    (tmp_path / "dedup.articles-paragraphs.cbor").write_bytes(b"")
    assert [p.name for p in FORMATS["trec-car"].files([tmp_path])] == [
        "dedup.articles-paragraphs.cbor"
    ]
    (tmp_path / "paragraphcorpus.cbor").write_bytes(b"")
    assert [path.name for path in FORMATS["trec-car"].files([tmp_path])] == ["paragraphcorpus.cbor"]


def test_what_is_not_utf8_is_told_by_record_or_replaced_and_counted(tmp_path):
    path = tmp_path / "c.cbor"
    path.write_bytes(
        RECORDS[0] + paragraph("p1", words(b"a\xffb")) + paragraph(b"\xff", words("x"))
    )
    facts = count_file(path, format="trec-car")
    with pytest.raises(InputError, match=r"record 2, at byte 41: not UTF-8 .*errors=replace"):
        read(path, facts, 0, 2)
    tally = Tally()
    assert read(path, facts, 1, 2, errors="replace", tally=tally) == [("p1", "a\ufffdb")]
    assert tally.num_replaced == 1
    with pytest.raises(InputError, match="record 3, at byte 54: .*utf-8"):
        read(path, facts, 2, 3, errors="replace")


def test_a_file_that_changed_since_it_was_counted_is_corrupt_and_a_damaged_one_is_not_counted(
    tmp_path,
):
    path = tmp_path / "c.cbor"
    data = b"".join(RECORDS)
    path.write_bytes(data)
    facts = count_file(path, format="trec-car", checkpoint_records=2)
    at = len(b"".join(RECORDS[:4]))
    for other, problem in (
        (b"\x1c", "at byte 164 is dam"),
        (b"\x84", "record 5, at byte 164: not"),
    ):
        path.write_bytes(data[:at] + other + data[at + 1 :])
        with pytest.raises(CorruptError, match="other bytes from byte"):
            read(path, facts, 4, 6)
        assert len(read(path, facts, 6, 9)) == 3
        with pytest.raises(InputError, match=problem):
            read(path, count_file(path, format="trec-car"))
