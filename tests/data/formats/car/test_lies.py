"""CBOR that lies, given to a pipeline: each is refused by the file and the byte of its record."""

import pytest
import yaml
from car_files import fixed, head, name, number, paragraph, text, unknown, with_head, words

WHOLE = b"".join(paragraph(f"p{n}", words("the zebra")) for n in range(3))
LIES = {
    "deep lists": b"\x81" * 10_000,
    "deep open lists": b"\x9f" * 10_000,
    "deep tags": b"\xc6" * 10_000,
    "a text longer than the file": head(3, 1 << 62) + b"x",
    "bytes of 2^64 - 1": head(2, (1 << 64) - 1) + b"x",
    "a list longer than the file": head(4, 1 << 40) + b"\0",
    "a list without an end": b"\x9f" + b"\0" * (5 << 20),
    "a text without an end": b"\x7f" + b"\x61a" * (3 << 20),
    "an open text of bytes": b"\x7f\x41a\xff",
    "a mark in a list that has a length": b"\x83\x00\xff\xff",
    "numbers as keys": b"\xa1\x00\x00",
    "a large number": b"\xc2" + name(b"\xff" * 100_000),
    "a list in itself": b"\xd8\x1c\x81\xd8\x1d\x00",
    "false for 0": fixed(b"\xf4", name("x"), unknown([])),
    "2^64 - 1 for 0": fixed(number((1 << 64) - 1), name("x"), unknown([])),
    "a text for an id": fixed(number(0), text("x"), unknown([])),
    "an id of two lines": paragraph("a\nb", words("x")),
    "a link of one part": paragraph("x", fixed(number(1), fixed(number(0)))),
    "a record that is cut off": paragraph("x", words("y"))[:-2],
}


@pytest.fixture
def pipeline(tmp_path, raypipe_here):
    def run(data):
        (tmp_path / "a.cbor").write_bytes(data)
        (tmp_path / "queries.tsv").write_text("q1\tthe zebra\n")
        (tmp_path / "run.trec").write_text("q1 Q0 p1 1 1 x\n")
        recipe = {
            "format": 1,
            "name": "lies",
            "collection": {"format": "trec-car", "input": str(tmp_path / "a.cbor")},
            "queries": {"test": {"file": str(tmp_path / "queries.tsv")}},
            "stages": {"given": {"do": "read", "runs": {"test": str(tmp_path / "run.trec")}}},
            "resources": {"backend": "inline", "device": "cpu"},
        }
        (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
        return raypipe_here("pipeline", tmp_path / "recipe.yaml", "--out", tmp_path / "work")

    return run


@pytest.mark.fault(51, "19 of 19 lies are refused by the byte of their record")
def test_each_is_refused_by_the_file_and_the_byte_of_its_record(pipeline):
    for lie, data in LIES.items():
        done = pipeline(WHOLE + data)
        assert done.returncode == 2, f"{lie}: {done.stderr}"
        assert "a.cbor: " in done.stderr and f"byte {len(WHOLE)}" in done.stderr, done.stderr
    for lie, data, told in (
        ("a second p1", WHOLE + paragraph("p1"), "p1"),
        ("a list without its mark", with_head(2, WHOLE)[:-1], "before the mark"),
        ("a head of pages", with_head(0, WHOLE), "found pages in its head"),
    ):
        done = pipeline(data)
        assert done.returncode == 2 and told in done.stderr, f"{lie}: {done.stderr}"
    assert pipeline(with_head(2, WHOLE)).returncode == 0
