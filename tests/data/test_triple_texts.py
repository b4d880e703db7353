"""Triples of texts are split into three files by hand."""

import gzip

import pytest

from raypipe.data.triple_texts import FILES, split_triples
from raypipe.errors import InputError


def split(tmp_path, content, name="triples.tsv"):
    path = tmp_path / name
    path.write_bytes(content)
    folder = tmp_path / "deep" / "out"
    number = split_triples(path, folder)
    assert sorted(p.name for p in folder.iterdir()) == ["passages.tsv", "queries.tsv", FILES[2]]
    return number, [(folder / each).read_bytes() for each in FILES]


WHOLE = b"q one\tpassage a\tpassage b\nq two\tpassage b\tc\r\nq one\tc\tpassage a"


@pytest.mark.parametrize("packed", [False, True])
def test_each_text_stands_once_by_first_appearance_and_triples_are_ids(tmp_path, packed):
    number, files = split(tmp_path, gzip.compress(WHOLE) if packed else WHOLE)
    assert number == 3
    assert files == [
        b"0\tpassage a\n1\tpassage b\n2\tc\n",
        b"0\tq one\n1\tq two\n",
        b"0\t0\t1\n1\t1\t2\n0\t2\t0\n",
    ]


def test_queries_and_passages_have_ids_of_their_own_and_blanks_are_kept(tmp_path):
    _, files = split(tmp_path, b"same\tsame\t same\n")
    assert files == [b"0\tsame\n1\t same\n", b"0\tsame\n", b"0\t0\t1\n"]


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (b"a\tb\tc\na\tb\n", "line 2: expected query, relevant and irrelevant .* found 2 columns$"),
        (b"a\tb\tc\td\n", "line 1: .* found 4 columns$"),
        (b"a\tb\tc\na\t \tc\n", "line 2: .* found 3 columns, one of them empty"),
        (b"\tb\tc\n", "line 1: .* one of them empty"),
        (b"a\tb\t\n", "line 1: .* one of them empty"),
        (b"a\tb\tc\na\tb\t\xff\n", "line 2: not UTF-8: invalid start byte"),
        (b"", "expected triples of texts, found no line"),
        (b"query\tpositive\tnegative\na\tb\tc\n", "line 1: .* found the names of columns"),
        (b'"Anchor"\t"neg"\t"pos"\r\na\tb\tc\n', "line 1: .* found the names of columns"),
    ],
)
def test_other_lines_are_refused_by_number_and_nothing_is_moved_into_place(
    tmp_path, content, cause
):
    path = tmp_path / "bad.tsv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"bad\.tsv: " + cause):
        split_triples(path, tmp_path / "out")
    assert not [each for each in FILES if (tmp_path / "out" / each).exists()]


def test_a_second_split_replaces_the_first(tmp_path):
    split(tmp_path, WHOLE)
    number, files = split(tmp_path, b"x\ty\tz\n")
    assert number == 1 and files == [b"0\ty\n1\tz\n", b"0\tx\n", b"0\t0\t1\n"]
