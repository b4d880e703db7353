"""Which files of a folder are read, and in what order."""

from pathlib import Path

import pytest

from raypipe.data.files import find_files, natural_key, plain_name
from raypipe.data.formats.registry import FORMATS
from raypipe.errors import InputError

v1_files, v2_files = FORMATS["msmarco-v1"].files, FORMATS["msmarco-v2"].files
pyserini_files = FORMATS["pyserini"].files


def make(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")
    return folder


def test_names_are_ordered_by_their_numbers_then_by_folder():
    names = ["a10", "a2", "2", "10", "b", "a", "x/a2", "a2b", "a02"]
    ordered = [p.as_posix() for p in sorted(map(Path, names), key=natural_key)]
    assert ordered == ["2", "10", "a", "a02", "a2", "x/a2", "a2b", "a10", "b"]
    assert [plain_name(Path(n)) for n in ("a.tsv.gz", "a.tsv", "a.bz2", "a.zst", "a.zip")] == [
        "a.tsv", "a.tsv", "a", "a", "a.zip"]  # fmt: skip


@pytest.mark.parametrize("name", ["x.tar", "x.tar.gz", "x.TGZ", "x.tbz", "x.tbz2", "x.zip", "x.7z"])
def test_archives_are_refused(tmp_path, name):
    make(tmp_path, name)
    with pytest.raises(InputError, match="an archive; unpack it"):
        find_files([tmp_path / name], patterns=[], expected="x")


def test_a_folder_gives_what_the_first_pattern_that_matches_finds(tmp_path):
    make(tmp_path, "b.tsv", "a.tsv.gz", ".c.tsv", "_d.tsv", "sub/e.txt", "f.txt", "a.tsvx")
    found = find_files([tmp_path], patterns=["none", r".*\.tsv", r".*\.txt"], expected="x")
    assert [p.name for p in found] == ["a.tsv.gz", "b.tsv"]


def test_each_format_prefers_its_own_names(tmp_path):
    one = make(tmp_path / "1", "collection.tsv", "collection2.tsv", "other.tsv")
    assert [p.name for p in v1_files([one])] == ["collection.tsv"]
    two = make(tmp_path / "2", "collection-b.tsv", "other.tsv")
    assert [p.name for p in v1_files([two])] == ["collection-b.tsv"]
    three = make(tmp_path / "3", "other.tsv", "other.json")
    assert [p.name for p in v1_files([three])] == ["other.tsv"]
    four = make(tmp_path / "4", "msmarco_passage_00", "msmarco_passage_01.jsonl.gz", "x.jsonl")
    assert [p.name for p in v2_files([four])] == [
        "msmarco_passage_00",
        "msmarco_passage_01.jsonl.gz",
    ]
    five = make(tmp_path / "5", "x.json", "y.jsonl")
    assert [p.name for p in v2_files([five])] == ["y.jsonl"]
    assert [p.name for p in pyserini_files([five])] == ["x.json", "y.jsonl"]
    six = make(tmp_path / "6", "x.json")
    assert (
        [p.name for p in v2_files([six])] == [p.name for p in pyserini_files([six])] == ["x.json"]
    )
