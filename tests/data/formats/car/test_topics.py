import gzip

import pytest
from car_files import page, paragraph, section, under, with_head

from raypipe.data.formats.car_topics import (
    write_judged_topics,
    write_judgements,
    write_released,
    write_topics,
)
from raypipe.errors import InputError

A = page("A", section("S%20T", under("p1"), under("p1"), under("p2")), section("S%20T"))
B = page("B", section("U", section("V", under("p3"))))


@pytest.fixture
def pages(tmp_path):
    (tmp_path / "one.cbor").write_bytes(A)
    (tmp_path / "two.cbor.gz").write_bytes(gzip.compress(with_head(0, B)))
    return [tmp_path / "one.cbor", tmp_path / "two.cbor.gz"]


def test_files_of_pages_become_queries_and_judgements(pages, tmp_path):
    target = tmp_path / "out" / "file"
    assert write_topics(pages, "hierarchical", target) == 3
    assert target.read_text() == "A/S%20T\tA S T\nB/U\tB U\nB/U/V\tB U V\n"
    assert write_topics(pages, "article", target) == 2
    assert target.read_text() == "A\tA\nB\tB\n"
    assert write_judgements(pages, "hierarchical", target) == 3
    assert target.read_text() == "A/S%20T 0 p1 1\nA/S%20T 0 p2 1\nB/U/V 0 p3 1\n"
    assert write_judgements(pages, "top-level", target) == 3
    assert target.read_text().endswith("B/U 0 p3 1\n")


def test_released_judgements_of_several_files_bring_their_topics(tmp_path):
    first, second, target, topics = (tmp_path / name for name in ("1", "2", "qrels", "topics"))
    first.write_text("enwiki:A/S 0 p1 1\nenwiki:B 0 p2 1\nenwiki:A/S 0 p3 1\n")
    second.write_text("enwiki:C%20D Q0 p1 2\n")
    assert write_released([first, second], target) == 4
    assert target.read_text() == first.read_text() + "enwiki:C%20D 0 p1 2\n"
    assert write_judged_topics(target, topics) == 3
    assert topics.read_text() == "enwiki:A/S\tA S\nenwiki:B\tB\nenwiki:C%20D\tC D\n"


def test_records_of_another_kind_are_told_by_number_and_byte_and_nothing_is_written(tmp_path):
    file, target = tmp_path / "file", tmp_path / "out"
    file.write_bytes(A + paragraph("p") + B + paragraph("p"))
    with pytest.raises(InputError) as found:
        write_topics([file], "article", target)
    assert found.value.problems == [
        f"{file}: record 2, at byte {len(A)}: a paragraph, not a page; name the file of outlines or"
        " pages",
        f"{file}: record 4, at byte {len(A + paragraph('p') + B)}: a paragraph, not a page; name"
        " the file of outlines or pages",
    ]
    assert not target.exists()


@pytest.mark.parametrize("data", [b"", page("A", section("S"))])
def test_outlines_have_no_judgements(tmp_path, data):
    file, target = tmp_path / "file", tmp_path / "out"
    file.write_bytes(data)
    with pytest.raises(InputError, match="no paragraphs in the pages; are they outlines"):
        write_judgements([file], "article", target)
    assert not target.exists()


def test_pages_without_sections_have_no_topics_below_the_page(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(page("A", under("p1")))
    assert write_topics([file], "article", tmp_path / "out") == 1
    with pytest.raises(InputError, match="file: no top-level topics"):
        write_topics([file], "top-level", tmp_path / "out")
