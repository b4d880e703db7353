import pytest

from raypipe.data.qrels import read_qrels
from raypipe.errors import InputError
from raypipe.schema import QRELS


def write(folder, content, name="qrels.txt"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def rows(path):
    table = read_qrels(path)
    assert table.schema == QRELS
    return [tuple(row.values()) for row in table.to_pylist()]


@pytest.mark.parametrize(
    "content",
    [
        "7\t0\t12\t1\n007\t0\t12\t0\n",
        "7 0 12 1\n007 0 12 0\n",
        "7 Q0 12 1\r\n007 xyz\t12   0",
        "\n7 0 12 1\n\n007 0 12 0\n\n",
        "\ufeff7 0 12 1\n007 0 12 0\n",
        "query-id\tcorpus-id\tscore\n7\t12\t1\n007\t12\t0\n",
        "Query-ID\tcorpus-id\tscore\r\n7\t12\t1\r\n007\t12\t0\r\n",
    ],
)
def test_four_columns_and_beir_read_the_same(tmp_path, content):
    assert rows(write(tmp_path, content)) == [("7", "12", 1), ("007", "12", 0)]


def test_grades_may_be_negative_and_ids_are_strings(tmp_path):
    path = write(tmp_path, "enwiki:A/b%20c 0 msmarco_passage_01_5 -2\n")
    assert rows(path) == [("enwiki:A/b%20c", "msmarco_passage_01_5", -2)]


def test_one_pair_given_twice_with_one_grade_counts_once(tmp_path):
    assert rows(write(tmp_path, "1 0 a 2\n1 0 b 0\n1 0 a 2\n")) == [("1", "a", 2), ("1", "b", 0)]


def test_one_pair_with_two_grades_is_refused_with_both_lines(tmp_path):
    content = "".join(f"1 0 p{n % 12} {n // 12}\n" for n in range(24))
    with pytest.raises(InputError) as caught:
        read_qrels(write(tmp_path, content))
    first = "line 13: query '1', passage 'p0' has grade 1, but 0 in line 1"
    assert first in caught.value.problems[0]
    assert caught.value.problems[-1] == "and 2 more problems"


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (b"", "no judgements in the file"),
        (b"query-id\tcorpus-id\tscore\n", "no judgements in the file"),
        (b"1 a 1\n", "line 1: expected the columns query 0 passage grade, found 3 in '1 a 1'"),
        (b"1 0 a 1\n1 0 a\n", "line 2: expected the columns query 0 passage grade, found 3"),
        (b"query-id\tcorpus-id\tscore\n1\t0\ta\t1\n", "line 2: expected the columns query-id"),
        (b"1 Q0 a 1 9.5 tag\n", "line 1: expected the columns query 0 passage grade, found 6"),
        (b"1 0 a 1.0\n", "line 1: expected an integer grade, found '1.0'"),
        (b"1 0 a 4294967296\n", "line 1: grade 4294967296 is beyond 32 bits"),
        (b"1 0 a\xff 1\n", "line 1: not UTF-8"),
        ("1 0 a\u00a0b 1\n".encode(), "line 1: white space"),
    ],
)
def test_bad_judgements_are_named_by_file_and_line(tmp_path, content, cause):
    with pytest.raises(InputError) as caught:
        read_qrels(write(tmp_path, content))
    assert f"qrels.txt: {cause}" in str(caught.value)


@pytest.mark.parametrize("grade", [2**31 - 1, 1 - 2**31])
def test_grades_of_32_bits_are_read_and_larger_ones_are_refused(tmp_path, grade):
    path = tmp_path / "q.txt"
    path.write_text(f"1 0 a {grade}\n")
    assert read_qrels(path)["relevance"].to_pylist() == [grade]
    path.write_text(f"1 0 a {grade + (1 if grade > 0 else -2)}\n")
    with pytest.raises(InputError, match="beyond 32 bits"):
        read_qrels(path)


def test_a_header_is_one_in_the_first_line_alone(tmp_path):
    path = tmp_path / "q.txt"
    path.write_text("query-id corpus-id score\nquery-id corpus-id score\n")
    with pytest.raises(InputError, match="line 2: expected an integer grade, found 'score'"):
        read_qrels(path)
