"""Which records of a collection's files are looked at."""

import gzip

import pytest

from raypipe.data.facts import count_file
from raypipe.data.reading import read_records
from raypipe.errors import InputError
from raypipe.stages.outlook import records
from raypipe.stages.outlook.records import blocks_of, sampled_records


def read(path, start, stop, facts):
    return read_records(path, format="msmarco-v1", start=start, stop=stop, facts=facts)


def rows(found):
    return [int(passage) for passage, _ in found]


@pytest.fixture
def few(monkeypatch):
    """Small limits: 10 rows of a small collection, 5 blocks."""
    monkeypatch.setattr(records, "LEAST_ROWS", 10)
    monkeypatch.setattr(records, "MOST_ROWS", 20)
    monkeypatch.setattr(records, "NUM_BLOCKS", 5)
    monkeypatch.setattr(blocks_of, "__defaults__", (5,))


def write(path, first, last):
    lines = "".join(f"{n}\tpassage {n}\n" for n in range(first, last))
    path.write_bytes(gzip.compress(lines.encode()) if path.suffix == ".gz" else lines.encode())
    return path, count_file(path, format="msmarco-v1", checkpoint_records=16)


@pytest.mark.parametrize(
    ("num_rows", "sampled"), [(0, 0), (9, 9), (10, 10), (11, 10), (400, 10), (600, 12), (5000, 20)]
)
def test_two_per_cent_are_read_but_at_least_10_and_at_most_20(few, num_rows, sampled):
    blocks = blocks_of(num_rows)
    assert sum(stop - start for start, stop in blocks) == sampled
    flat = [row for start, stop in blocks for row in range(start, stop)]
    assert flat == sorted(set(flat)) and all(0 <= row < num_rows for row in flat)


def test_blocks_are_evenly_spaced_with_half_a_gap_at_both_ends(few):
    assert blocks_of(110) == [(10, 12), (32, 34), (54, 56), (76, 78), (98, 100)]


def test_the_limits_are_ten_and_forty_thousand_rows():
    assert [sum(b - a for a, b in blocks_of(n)) for n in (9_000, 10**5, 10**6, 10**7)] == [
        9_000,
        10_000,
        20_000,
        40_000,
    ]


@pytest.mark.parametrize("ending", ["tsv", "tsv.gz"])
def test_the_blocks_go_on_over_the_borders_of_files(few, tmp_path, ending):
    files = [write(tmp_path / f"{n}.{ending}", n * 55, n * 55 + 55) for n in range(2)]
    found = sampled_records(*zip(*files, strict=True), read)
    assert rows(found) == [n for start, stop in blocks_of(110) for n in range(start, stop)]
    assert found[0] == ("10", "passage 10")


def test_a_large_file_is_read_from_checkpoints_and_no_record_twice(few, tmp_path, monkeypatch):
    monkeypatch.setattr(records, "ONE_PASS_RECORDS", 50)
    path, facts = write(tmp_path / "a.tsv", 0, 110)
    starts = []

    def noted(path, start, stop, facts):
        starts.append(start)
        return read(path, start, stop, facts)

    found = rows(sampled_records([path], [facts], noted))
    assert starts == [0, 32, 48, 64, 96] and len(set(found)) == 10
    assert found == [0, 1, 32, 33, 48, 49, 64, 65, 96, 97]


def test_of_a_large_compressed_file_the_first_records_are_read(few, tmp_path, monkeypatch):
    monkeypatch.setattr(records, "ONE_PASS_RECORDS", 50)
    path, facts = write(tmp_path / "a.tsv.gz", 0, 110)
    assert rows(sampled_records([path], [facts], read)) == [*range(10)]
    files = [write(tmp_path / f"{n}.tsv.gz", n * 55, n * 55 + 55) for n in range(2)]
    found = rows(sampled_records(*zip(*files, strict=True), read))
    assert found == [*range(5), *range(55, 60)], "a block over their border is shared"


def test_a_bad_record_is_told_where_the_file_is_read_to_its_end(few, tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("0\tone\nno tab\n2\tthree\n")
    facts = count_file(path, format="msmarco-v1")
    with pytest.raises(InputError, match="line 2"):
        sampled_records([path], [facts], read)
    path.write_text("no tab\n" + "".join(f"{n}\tpassage {n}\n" for n in range(109)))
    facts = count_file(path, format="msmarco-v1")
    assert len(sampled_records([path], [facts], read)) == 10  # the run will tell of it
