import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from foreign_tools import FOREIGN
from foreign_tools import QRELS as FOREIGN_QRELS

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
        (b"1 a\n", "line 1: expected the columns query 0 passage grade, found 2 in '1 a'"),
        (b"1 a 1\n1 0 a 1\n", "line 2: expected the columns query passage grade, found 4 in"),
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


@pytest.mark.parametrize(
    "content",
    [
        "7 12 1\n007 12 0\n",
        "7\t12\t1\n\n007\t12\t0\n",
        "7,12,1\n007,12,0\n",
        "7,0,12,1\n007,0,12,0\n",
        "query_id,iteration,doc_id,relevance\n7,0,12,1\n007,0,12,0\n",
        "qid\tdocno\tlabel\n7\t12\t1\n007\t12\t0\n",
        "label;qid;docno\n1;7;12\n0;007;12\n",
        "QID 0 DocID Rel\n7 0 12 1\n007 0 12 0\n",
        ',qid,docno,"label"\n0,7,12,1\n1,007,12,0\n',
        '{"7": {"12": 1}, "007": {"12": 0}}',
        '\ufeff \n{"7": {"12": 1.0},\n "007": {"12": 0}}\n',
    ],
)
def test_three_columns_headers_and_json_read_the_same(tmp_path, content):
    assert rows(write(tmp_path, content)) == [("7", "12", 1), ("007", "12", 0)]


@pytest.mark.parametrize(
    "name",
    [
        *("ranx.qrels.json", "ranx.qrels.trec", "ranx.qrels.parquet"),
        *("pyterrier.qrels.csv", "pyterrier.qrels.parquet"),
    ],
)
def test_judgements_of_other_tools_are_read_as_these_wrote_them(name):
    assert set(rows(FOREIGN / name)) == FOREIGN_QRELS


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        ("q,d,r\n1,a,1\n", "line 1: expected an integer grade, found 'r'"),
        ("qid,docno,label\n1,a\n", "line 2: expected the columns qid docno label, found 2"),
        ("qid,docno,rank,score\n1,a,1,9\n", "line 1: a column rank: this looks like a run"),
        ('{"1": {"a": 0.5}}', "row 1: expected an integer grade, found 0.5"),
        ('{"1": {"a": true}}', "row 1: expected an integer grade, found True"),
        ('{"1": {"a": 1}, "2": {"a b": 1}}', "row 2: white space or a control character"),
        ('{"1": {"a": 1, "a": 2}}', "row 2: query '1', passage 'a' has grade 2, but 1 in row 1"),
        ('{"1": {"a": 4294967296}}', "row 1: grade 4294967296 is beyond 32 bits"),
        (
            '{"1": {"a": 1}',
            "expected JSON in UTF-8, {query id: {passage id: grade}}; Expecting ','",
        ),
        ('{"1": ["a", 1]}', "expected JSON in UTF-8, {query id: {passage id: grade}}; not enough"),
        (
            '{"1": {"\\ud800": 1}}',
            "expected JSON in UTF-8, {query id: {passage id: grade}}; 'utf-8'",
        ),
        ("".join(f"1\tp{n}\t{n}\n" for n in range(1, 6)), "the grades of query '1' count 1, 2,"),
    ],
)
def test_bad_judgements_of_other_forms_are_named_by_their_place(tmp_path, content, cause):
    with pytest.raises(InputError) as caught:
        read_qrels(write(tmp_path, content))
    assert f"qrels.txt: {cause}" in str(caught.value)


def test_compressed_json_that_was_cut_off_behind_its_first_mebibyte_is_told_as_cut_off(tmp_path):
    entries = ", ".join(f'"{n:08}": 1' for n in range(90_000))
    path = write(tmp_path, gzip.compress(f'{{"1": {{{entries}}}}}'.encode(), 1)[:-20], "qrels.gz")
    with pytest.raises(InputError) as caught:
        read_qrels(path)
    assert str(caught.value).startswith(f"{path}: cut off: the gzip data stop after byte 1,")


def test_grades_that_count_up_over_queries_or_less_far_are_grades(tmp_path):
    apart = "".join(f"{n}\tp{n}\t{n}\n" for n in range(1, 6))
    assert len(rows(write(tmp_path, apart))) == 5
    assert len(rows(write(tmp_path, "".join(f"1\tp{n}\t{n}\n" for n in range(1, 5))))) == 4
    trec = "".join(f"1 0 p{n} {n}\n" for n in range(1, 7))
    assert len(rows(write(tmp_path, trec))) == 6


@pytest.mark.parametrize(
    ("table", "cause"),
    [
        ({"qid": ["1"], "grade": [1]}, "missing passage_id; found qid, grade (for passage_id also"),
        ({"qid": ["1"], "docno": [None], "label": [1]}, "column docno: 1 rows are null"),
        ({"qid": [1.5], "docno": ["a"], "label": [1]}, "column qid: expected texts; found double"),
        ({"qid": ["1"], "docno": ["a"], "label": ["1"]}, "row 1: expected an integer grade"),
    ],
)
def test_a_parquet_file_that_holds_no_judgements_is_refused_by_its_column(tmp_path, table, cause):
    columns = {name: pa.array(v, pa.string()) if v == [None] else v for name, v in table.items()}
    pq.write_table(pa.table(columns), tmp_path / "qrels.parquet")
    with pytest.raises(InputError) as caught:
        read_qrels(tmp_path / "qrels.parquet")
    assert cause in str(caught.value)
