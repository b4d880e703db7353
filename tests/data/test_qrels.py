import csv
import gzip
import io
import json
import resource
import zlib
from decimal import Decimal

import ir_measures
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import pytrec_eval
from foreign_tools import FOREIGN
from foreign_tools import QRELS as FOREIGN_QRELS
from hypothesis import given
from hypothesis import strategies as st

from raypipe.api.inputs import qrels_of
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


@pytest.mark.parametrize("grade", [1_000_000, -1_000_000])
@pytest.mark.parametrize(
    "form", ["1 0 a {}\n", '{{"1": {{"a": {}}}}}', '{{"qid": "1", "docno": "a", "rel": {}}}']
)
def test_grades_up_to_a_million_are_read_and_larger_ones_are_refused(tmp_path, form, grade):
    assert rows(write(tmp_path, form.format(grade))) == [("1", "a", grade)]
    larger = grade + (1 if grade > 0 else -1)
    with pytest.raises(InputError, match=f": (line|row) 1: grade {larger} is beyond 1,000,000"):
        read_qrels(write(tmp_path, form.format(larger)))


@pytest.mark.parametrize("grade", ["2", "2.0", "2.", "+2", "02"])
def test_a_whole_grade_may_have_a_point_in_text(tmp_path, grade):
    assert rows(write(tmp_path, f"1 0 a {grade}\n")) == [("1", "a", 2)]
    header = f"query-id\tcorpus-id\tscore\n1\ta\t{grade} \n"
    assert rows(write(tmp_path, header)) == [("1", "a", 2)]


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
        '{"query-id": "7", "corpus-id": "12", "score": 1}\n'
        '{"query-id": "007", "corpus-id": "12", "score": 0}\n',
        '\n{"query_id": "7", "doc_id": 12, "relevance": 1.0, "iteration": "0"}\r\n\n'
        '{"relevance": 0, "doc_id": "12", "query_id": "007"}',
        "# by two people\n7 0 12 1\n# a b 3\n#\n007 0 12 0\n",
        "#\n\nquery-id\tcorpus-id\tscore\n# the first\n7\t12\t1\n007\t12\t0\n",
        "query-id\tcorpus-id\tscore\n7 12 1\n007 12 0 \n",
        "query-id corpus-id score\n7\t12\t1\n007\t12\t0\n",
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


def test_decimals_of_a_data_base_are_grades_if_they_are_whole(tmp_path):
    columns = {"qid": ["q", "q"], "docno": ["a", "b"], "label": [Decimal("1.0"), Decimal("0.0")]}
    pq.write_table(pa.table(columns), tmp_path / "qrels")
    assert rows(tmp_path / "qrels") == [("q", "a", 1), ("q", "b", 0)]
    pq.write_table(pa.table({**columns, "label": [Decimal("0.5")] * 2}), tmp_path / "qrels")
    with pytest.raises(
        InputError, match=r"row 1: expected an integer grade, found 0\.5; trec_eval"
    ):
        read_qrels(tmp_path / "qrels")


@pytest.mark.parametrize("orient", ["columns", "index"])
def test_a_table_of_judgements_in_one_object_is_named_with_what_pandas_writes(tmp_path, orient):
    frame = pa.table({"qid": ["q"], "docno": ["a"], "label": [1]}).to_pandas()
    frame.to_json(tmp_path / "qrels", orient=orient)
    with pytest.raises(InputError, match=r"found a table, as pandas writes it: df\.to_json"):
        read_qrels(tmp_path / "qrels")
    frame.to_json(tmp_path / "qrels", orient="records", lines=True)
    assert rows(tmp_path / "qrels") == [("q", "a", 1)]


def test_json_whose_queries_have_lists_names_the_query(tmp_path):
    (tmp_path / "qrels.json").write_text('{"q1": {"a": 1}, "q2": ["a", "b"]}')
    with pytest.raises(InputError, match="query 'q2' has no object, but \\['a', 'b'\\]; or an obj"):
        read_qrels(tmp_path / "qrels.json")


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
        (
            {"qid": ["1"], "docno": [None], "label": [1]},
            "column docno: 1 rows are null, the first of them row 1; leave them",
        ),
        (
            {"qid": [1.5], "docno": ["a"], "label": [1]},
            "column qid: expected texts or whole numbers; found double; pandas",
        ),
        (
            {"qid": ["1"], "docno": ["a"], "label": ["1"]},
            "row 1: expected an integer grade, found '1'; it is a text: write",
        ),
    ],
)
def test_a_parquet_file_that_holds_no_judgements_is_refused_by_its_column(tmp_path, table, cause):
    columns = {name: pa.array(v, pa.string()) if v == [None] else v for name, v in table.items()}
    pq.write_table(pa.table(columns), tmp_path / "qrels.parquet")
    with pytest.raises(InputError) as caught:
        read_qrels(tmp_path / "qrels.parquet")
    assert cause in str(caught.value)


RUNS = [
    ("query_id", "doc_id", "score"),
    ("qid", "pid", "Score"),
    ("query_id", "corpus_id", "score"),
    ("q_id", "doc_id", "score"),  # of ranx's runs and judgements, which it writes as Parquet alone
    ("query_id", "passage_id", "rank", "score"),
    ("query-id", "corpus-id", "rank", "score"),
]


@pytest.mark.parametrize("separator", [",", "\t", ";", " ", "json", "parquet"])
@pytest.mark.parametrize("names", RUNS)
def test_whole_scores_of_a_run_are_no_grades_in_any_form(tmp_path, names, separator):
    table = [(*("1", f"p{n}", n, 9 - n)[: len(names) - 1], 9.0 - n) for n in (1, 2)]
    if separator == "parquet":
        columns = dict(zip(names, map(list, zip(*table, strict=True)), strict=True))
        path = tmp_path / "qrels.txt"
        pq.write_table(pa.table(columns), path)
    elif separator == "json":
        lines = [json.dumps(dict(zip(names, row, strict=True))) for row in table]
        path = write(tmp_path, "\n".join(lines))
    else:
        lines = [separator.join(map(str, row)) for row in (names, *table)]
        path = write(tmp_path, "\n".join(lines))
    told = "a column rank: this looks" if "rank" in names else "the column score is that of a run;"
    with pytest.raises(InputError, match=told) as caught:
        read_qrels(path)
    assert len(caught.value.problems) == 1 and str(path) in str(caught.value)


@pytest.mark.parametrize("form", ["text", "json", "parquet"])
def test_a_score_beside_corpus_id_is_a_grade_in_every_form(tmp_path, form):
    names, path = ["query-id", "corpus-id", "score"], tmp_path / "qrels.txt"
    if form == "parquet":
        pq.write_table(pa.table([["1"], ["a"], [2.0]], names=names), path)
    elif form == "json":
        path.write_text('{"query-id": "1", "corpus-id": "a", "score": 2.0}')
    else:
        path.write_text(f"{','.join(names)},iteration\n1,a,2,0\n")
    assert rows(path) == [("1", "a", 2)]


BEIR = "query-id\tcorpus-id\tscore\n"


def test_quoted_ids_of_a_file_with_a_header_are_read_as_beir_reads_them(tmp_path):
    content = BEIR + '1\t"""Blue""_(song)"\t1\n2\t"Rock_""n""_roll"\t2\n"3"\ta"b"\t1\n'
    expected = [("1", '"Blue"_(song)', 1), ("2", 'Rock_"n"_roll', 2), ("3", 'a"b"', 1)]
    assert rows(write(tmp_path, content)) == expected
    assert rows(write(tmp_path, content.replace("\t", ","))) == expected


def test_ids_keep_their_quotes_where_no_header_names_the_columns_as_in_trec_eval(tmp_path):
    assert rows(write(tmp_path, '1\t0\t"a"\t1\n')) == [("1", '"a"', 1)]


@pytest.mark.parametrize(
    ("row", "cause"),
    [
        ('1\t"Blue"_(song)\t1', "line 2: not CSV: '\t' expected after '\"'; a text in quotes"),
        ('1\t"Blue\t1', "line 2: not CSV: unexpected end of data; a text in quotes"),
        ("1\ta \t1", "line 2: white space"),
        ("1\ta\t1\t", "line 2: expected the columns query-id corpus-id score, found 4"),
        ("#1\ta\t1", "line 2: '#1\\ta\\t1' may be a comment, or a judgement of '#1', as csv"),
    ],
)
def test_rows_that_beir_would_read_otherwise_or_not_at_all_are_refused(tmp_path, row, cause):
    with pytest.raises(InputError) as caught:
        read_qrels(write(tmp_path, BEIR + row + "\n"))
    assert f"qrels.txt: {cause}" in str(caught.value)
    with pytest.raises(InputError, match="line 2: "):
        read_qrels(write(tmp_path, f"{BEIR}{row}\n".replace("\t", ",")))


def test_a_comment_begins_in_the_first_column_and_ids_may_hold_its_mark(tmp_path):
    content = "q#1 0 seg#7 1\n #q 0 #d 1\n#q 0 #d 2\n"
    assert rows(write(tmp_path, content)) == [("q#1", "seg#7", 1), ("#q", "#d", 1)]
    with pytest.raises(InputError, match="no judgements in the file"):
        read_qrels(write(tmp_path, "#1 0 a 1\n"))


@pytest.mark.parametrize(
    ("content", "count"),
    [
        ("#1 0 a 1\nq 0 a 1\n#2\tQ0\ta\t-1\n", 2),
        ("#1,a,1\nq,a,1\n", 1),
        ("#1 a 1\nq a 1\n", 1),
        ("#1 a 1\nq 0 a 1\n# 1 0 a 1\n# 0 a 1\n#by all 3\n#read by all 3\n#1 0 a b\n", 0),
    ],
)
def test_comments_that_ir_measures_reads_as_judgements_are_told(tmp_path, caplog, content, count):
    path = write(tmp_path, content)
    assert rows(path) == [("q", "a", 1)]
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == bool(count)
    for message in told:
        assert message.startswith(f"{path}: lines that begin with # are comments, as in trec_eval")
        assert f"reads {count} of them as judgements (first: '#1" in message


def test_queries_of_a_dictionary_without_judgements_are_told(tmp_path, caplog):
    path = write(tmp_path, '{"q": {"a": 1}, "r": {}, "s": {"a": 0}, "t": {}}')
    assert rows(path) == [("q", "a", 1), ("s", "a", 0)]
    told = (
        f"{path}: queries without a judgement are in no mean, where ir_measures counts 0 for each"
    )
    (record,) = caplog.records
    assert record.getMessage().startswith(told) and record.getMessage().endswith(": r, t")
    judged, ranking = json.loads(path.read_text()), {"q": {"a": 1.0}}
    counted = ir_measures.calc_aggregate([ir_measures.RR], judged, ranking)
    assert counted == {ir_measures.RR: 1 / 4}
    caplog.clear()
    qrels_of(judged)
    assert caplog.records[0].getMessage().startswith("qrels: queries without a judgement")


def test_four_columns_that_may_have_the_passage_in_the_second_are_refused_with_both_readings(
    tmp_path,
):
    both = "q1 a 1 0\nq1 b 2 0\nq2 a 1 1\n"
    with pytest.raises(InputError, match="`query iteration passage grade`, as trec_eval reads.*or"):
        read_qrels(write(tmp_path, both))
    named = "qid docno label assessor\n" + both
    assert rows(write(tmp_path, named)) == [("q1", "a", 1), ("q1", "b", 2), ("q2", "a", 1)]
    for settled in (
        both.replace(" a ", " 0 "),  # a usual iteration
        "q1 a 1 0\nq2 a 2 0\n",  # one word throughout
        "q1 a 1 0\nq1 a 2 0\nq2 b 1 1\n",  # a query has it twice
        "q1 a 1 0\nq1 b p2 0\n",  # no grade in the third column
    ):
        assert rows(write(tmp_path, settled))[0][1] == "1"


def test_equal_judgements_that_pack_well_are_refused_before_they_are_parsed(tmp_path):
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    blocks = [packer.compress(b"query7 0 passage 1\n" * 50_000) for _ in range(80)]
    path = write(tmp_path, b"".join([*blocks, packer.flush()]), "qrels.gz")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    with pytest.raises(InputError, match=r"qrels\.gz: expected at most 200 times its"):
        read_qrels(path)
    # Parsing 64 MiB takes more than 10 seconds; unpacking them, a tenth of one.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 3


IDS = st.text("ab01#\"'\u00e9/_", min_size=1, max_size=5)
"""Ids of the field, with quotes and the mark of a comment."""
PAIRS = st.lists(
    st.tuples(IDS, IDS, st.integers(-2, 3)),
    min_size=1,
    max_size=5,
    unique_by=lambda judged: judged[:2],
)
ENDS = st.sampled_from(["\n", "\r\n"])


@given(PAIRS, ENDS, st.booleans())
def test_what_csv_writes_below_a_header_is_read_as_by_beirs_loader(
    tmp_path_factory, pairs, end, has_mark
):
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter="\t", lineterminator=end)
    writer.writerows([("query-id", "corpus-id", "score"), *pairs])
    path = tmp_path_factory.getbasetemp() / "beir.tsv"
    path.write_text("\ufeff" * has_mark + stream.getvalue(), newline="")
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_MINIMAL)
        next(reader)
        expected = [(row[0], row[1], int(row[2])) for row in reader]
    if "\n#" in stream.getvalue():
        with pytest.raises(InputError, match="may be a comment, or a judgement"):
            read_qrels(path)
    else:
        assert rows(path) == expected == pairs


CELLS = st.sampled_from(['"a"', "a", '"', '""', '"a""b"', 'a"b', '"a" b', "1", "#", " a", "a ", ""])


@given(st.lists(st.lists(CELLS, min_size=1, max_size=4).map("\t".join), min_size=1, max_size=3))
def test_any_rows_below_a_header_are_read_as_by_beirs_loader_or_refused(tmp_path_factory, lines):
    path = tmp_path_factory.getbasetemp() / "any.tsv"
    path.write_text(BEIR + "".join(f"{line}\t1\n" for line in lines))
    try:
        read = rows(path)
    except InputError:
        return
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_MINIMAL)
        next(reader)
        table = {(row[0], row[1]): int(row[2]) for row in reader if not row[0].startswith("#")}
    assert {(query_id, passage_id): grade for query_id, passage_id, grade in read} == table


BLANKS = st.sampled_from([" ", "\t", "  ", " \t "])


@given(PAIRS, st.lists(BLANKS, min_size=5, max_size=5), ENDS, st.sampled_from(["", "# c d 1", "#"]))
def test_judgements_between_blanks_are_read_as_by_pytrec_eval(
    tmp_path_factory, pairs, blanks, end, comment
):
    first, second, third, last, before = blanks
    judged = [
        f"{before * (number % 2)}{query_id}{first}0{second}{passage_id}{third}{grade}{last}"
        for number, (query_id, passage_id, grade) in enumerate(pairs)
    ]
    text = [line for line in judged if not line.startswith("#")]
    path = tmp_path_factory.getbasetemp() / "trec.txt"
    path.write_text(end.join([*judged, comment, ""]), newline="")
    expected = pytrec_eval.parse_qrel(text)
    if not expected:
        with pytest.raises(InputError, match="no judgements"):
            read_qrels(path)
        return
    read: dict[str, dict[str, int]] = {}
    for query_id, passage_id, grade in rows(path):
        read.setdefault(query_id, {})[passage_id] = grade
    assert read == expected
