"""Which records of a collection's files are looked at."""

import gzip

import pytest

from raypipe.data.facts import count_file
from raypipe.driver.forecast import samples
from raypipe.driver.forecast.samples import blocks_of, sample_of_files
from raypipe.errors import InputError
from raypipe.stages.prepare import ConvertStage


def sampled(*files):
    paths, facts = zip(*files, strict=True)
    stage = ConvertStage(paths, facts, "msmarco-v1")
    return sample_of_files(paths, facts, stage.read())


def rows(found):
    return [int(text.split()[1]) for text in found.texts]


@pytest.fixture
def few(monkeypatch):
    """Small limits: 10 rows in 5 blocks."""
    monkeypatch.setattr(samples, "ROWS", 10)
    monkeypatch.setattr(samples, "NUM_BLOCKS", 5)


def write(path, first, last):
    lines = "".join(f"{n}\tpassage {n}\n" for n in range(first, last))
    path.write_bytes(gzip.compress(lines.encode()) if path.suffix == ".gz" else lines.encode())
    return path, count_file(path, format="msmarco-v1", checkpoint_records=16)


@pytest.mark.parametrize("num_rows", [0, 9, 10, 11, 400, 5000])
def test_a_small_table_is_read_whole_and_of_a_larger_one_ten_rows(few, num_rows):
    blocks = blocks_of(num_rows)
    flat = [row for start, stop in blocks for row in range(start, stop)]
    assert len(flat) == min(num_rows, 10)
    assert flat == sorted(set(flat)) and all(0 <= row < num_rows for row in flat)


def test_blocks_are_evenly_spaced_with_half_a_gap_at_both_ends(few):
    assert blocks_of(110) == [(10, 12), (32, 34), (54, 56), (76, 78), (98, 100)]


@pytest.mark.parametrize("ending", ["tsv", "tsv.gz"])
def test_the_blocks_go_on_over_the_borders_of_files(few, tmp_path, ending):
    files = [write(tmp_path / f"{n}.{ending}", n * 55, n * 55 + 55) for n in range(2)]
    found = sampled(*files)
    assert rows(found) == [n for start, stop in blocks_of(110) for n in range(start, stop)]
    assert found.texts[0] == "passage 10" and (found.num_rows, found.scale) == (110, 11)
    assert found.id_bytes == 2 and found.num_bytes == 110 * (2 + len("passage 10"))


def test_a_large_file_is_read_from_checkpoints_and_no_record_twice(few, tmp_path, monkeypatch):
    monkeypatch.setattr(samples, "ONE_PASS_RECORDS", 50)
    found = rows(sampled(write(tmp_path / "a.tsv", 0, 110)))
    assert found == [0, 1, 32, 33, 48, 49, 64, 65, 96, 97]


def test_of_a_large_compressed_file_the_first_records_are_read(few, tmp_path, monkeypatch):
    monkeypatch.setattr(samples, "ONE_PASS_RECORDS", 50)
    assert rows(sampled(write(tmp_path / "a.tsv.gz", 0, 110))) == [*range(10)]
    files = [write(tmp_path / f"{n}.tsv.gz", n * 55, n * 55 + 55) for n in range(2)]
    found = rows(sampled(*files))
    assert found == [*range(5), *range(55, 60)], "a block over their border is shared"


def test_a_bad_record_is_told_where_the_file_is_read_to_its_end(few, tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("0\tone\nno tab\n2\tthree\n")
    facts = count_file(path, format="msmarco-v1")
    with pytest.raises(InputError, match="line 2"):
        sampled((path, facts))
    path.write_text("no tab\n" + "".join(f"{n}\tpassage {n}\n" for n in range(109)))
    facts = count_file(path, format="msmarco-v1")
    assert len(sampled((path, facts)).texts) == 10  # the run will tell of it
