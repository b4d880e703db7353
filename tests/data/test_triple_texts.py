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
        (
            b"a\tb\tc\na\tb\n",
            "line 2: expected query, relevant and .* found 2 columns; a pair ",
        ),
        (b"a\tb\tc\td\n", "line 1: .* found 4 columns; write a line "),
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


QUERIES = ("where is the lease", "who holds a shard")


def of(line):
    return "".join(line(query) for query in QUERIES).encode()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (of(lambda q: f"{q}\tright\t1\n{q}\tother\t0\n"), "column 3, such as '1': labelled pairs"),
        (of(lambda q: f"{q}\tright\t0.9\n{q}\tother\t1e-2\n"), "column 3, such as '0.9': labelled"),
        (of(lambda q: f"{q}\tright\tTrue\n{q}\tother\tFalse\n"), "column 3, such as 'True'"),
        (of(lambda q: f"entailment\t{q}\tright\n"), "column 1, such as 'entailment': labelled"),
        (of(lambda q: f"7\t{q}\tright\n"), "column 1, such as '7': labelled pairs or ids"),
        (b"174249\t3976969\t4657500\n", "ids, such as '174249 3976969 4657500'; give the file"),
        (b"q1\tD12\tD7#3\nq2\tD1\tD2\n", "ids, .* as train.NAME.triples, with the collection"),
    ],
)
def test_labels_and_ids_are_not_learnt_as_texts(tmp_path, content, told):
    path = tmp_path / "pairs.tsv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"pairs\.tsv: expected texts, found only .*{told}"):
        split_triples(path, tmp_path / "out")
    assert not [each for each in FILES if (tmp_path / "out" / each).exists()]


@pytest.mark.parametrize(
    "content",
    [
        b"six times seven\t42\t48\ntwo and two\t4\t5\n",  # answers that are numbers
        b"is water wet\tyes\tno\n",
        "水是湿的吗\t是\t否\n".encode(),
        b"a query\tone relevant passage\tan irrelevant one, not negative\n",  # no names of columns
        b"a\tb\tc1\n",  # a letter is a text: only some of them have a digit
        of(lambda q: f"{q}\tright\t1\n{q}\tother\tnot 0\n"),
    ],
)
def test_answers_of_one_word_or_number_are_texts(tmp_path, content):
    assert split(tmp_path, content)[0] == content.count(b"\n")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (
            b'{"query": "a", "pos": ["b"], "neg": ["c"]}\n',
            "found 1 columns; this is JSON: write",
        ),
        (b'[{"anchor": "a", "positive": "b"}]\n', "found 1 columns; this is JSON"),
        (b"anchor,positive,negative\n", "found 1 columns; this line names the columns: remove it"),
        (b"a query,yes,no\n", "found 1 columns; this has commas: write a line for each pair of a "),
        (b"PAR1\x15\x04\n", "found 1 columns; this is Parquet: write a line for each pair"),
        (b"a query\ta passage\n", "found 2 columns; a pair has no irrelevant passage: give"),
        (b"\n", "found 1 columns; remove the empty line"),
    ],
)
def test_forms_of_other_tools_are_refused_with_what_makes_triples_of_them(tmp_path, content, told):
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"other: line 1: .*{told}"):
        split_triples(path, tmp_path / "out")
