"""The form of a run file is decided by all of its lines, and its lines are read as by trec_eval."""

import bz2
import csv
import gzip
import io
import logging

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import pytrec_eval
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow.csv import write_csv

from raypipe.errors import InputError
from raypipe.evaluation.run_files.forms import form_of, third_column
from raypipe.evaluation.run_files.runs import is_unordered, read_parts, read_run


@pytest.fixture
def write(tmp_path):
    def write(content):
        path = tmp_path / "run"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def lines(path, **options):
    return [tuple(row.values()) for row in read_run(path, **options).to_pylist()]


def order(path, **options):
    return [row[:2] for row in lines(path, **options)]


def refused(path):
    with pytest.raises(InputError) as caught:
        read_run(path)
    return str(caught.value)


RANKS, SCORES, NO_ORDER = "msmarco", "scored", "unordered"


@pytest.mark.parametrize(
    ("form", "queries"),
    [
        (RANKS, {"a": "1 2 3", "b": "1 2"}),
        (RANKS, {"a": "2 1 3", "b": "2 1"}),  # in any order, where one query shows that it is none
        (RANKS, {"a": "3 2 1", "b": "1 2"}),  # reversed in one query only
        (RANKS, {"a": "0 1 2", "b": "0"}),
        (RANKS, {"a": "1", "b": "1"}),  # whose score would be 1 too
        (RANKS, {"a": "1 4 7", "b": "2 3"}),  # gaps of a file that was cut to some passages
        (SCORES, {"a": "300 250 40", "b": "310 290"}),
        (SCORES, {"a": "300 250 250", "b": "7"}),
        (SCORES, {"a": "30.5 25.0", "b": "7.25"}),
        (SCORES, {"a": "25.0 30.5", "b": "7.25"}),  # in no order
        (SCORES, {"a": "3.0 2.0 1.0"}),
        (SCORES, {"a": "3e0 2e0 1e0"}),
        (SCORES, {"a": "-1 -2 -3"}),
        (SCORES, {"a": "2 0 -3"}),
        (SCORES, {"a": "12.0", "b": "7.0"}),
        (SCORES, {"a": "4 1"}),
        (NO_ORDER, {"a": "-1 -1", "b": "-1"}),
        (NO_ORDER, {"a": "-1"}),
        (None, {"a": "3 2 1", "b": "2 1"}),  # ranks in reverse order, or scores
        (None, {"a": "2 1 0"}),
        (None, {"a": "1.0 2.0 3.0"}),
        (None, {"a": "5", "b": "7"}),
        (None, {"a": "0", "b": "0"}),
        (None, {"a": "1 1 1"}),  # judgements, perhaps
        (None, {"a": "0 1 1 0"}),
        (None, {"a": "40 250 300"}),
        (None, {"a": "7 3 9"}),
    ],
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_third_column_is_a_rank_or_a_score_by_all_lines_or_refused(write, form, queries, pack):
    rows = [
        f"{query}\tp{place}\t{value}\n"
        for query, values in queries.items()
        for place, value in enumerate(values.split())
    ]
    path = write(pack("".join(rows).encode()))
    if form is None:
        told = refused(path)
        assert "query_id TAB passage_id TAB rank, or query_id TAB passage_id TAB score" in told
        return
    assert form_of(path) == form
    expected = []
    for query, values in queries.items():
        rows = [(float(value), f"p{n}") for n, value in enumerate(values.split())]
        if form != NO_ORDER:
            rows.sort(reverse=form == SCORES)
        expected += [(query, passage) for _, passage in rows]
    assert order(path, unordered=True) == expected


def test_the_header_that_the_refusal_names_decides(write):
    rows = "1\ta\t2\n1\tb\t1\n"
    assert "1 to n in each query, as ranks are, and falls, as scores do" in refused(write(rows))
    ranked = write(f"query_id\tpassage_id\trank\n{rows}")
    assert lines(ranked) == [("1", "b", 1, 1.0), ("1", "a", 2, 0.5)]
    scored = write(f"query_id\tpassage_id\tscore\n{rows}")
    assert lines(scored) == [("1", "a", 1, 2.0), ("1", "b", 2, 1.0)]
    assert lines(write(f"qid pid score\n{rows}".replace("\t", " "))) == lines(scored)


def test_a_line_that_comes_late_still_decides(write):
    ranks = "".join(f"{query}\tp{n}\t{4 - n}\n" for query in range(30_000) for n in (1, 2, 3))
    assert "as ranks are, and falls" in refused(write(ranks))
    assert form_of(write(f"{ranks}x\tp1\t1\nx\tp2\t2\n")) == RANKS
    assert form_of(write(f"{ranks}x\tp1\t1.5\n")) == SCORES


def test_tevatrons_scores_are_kept_and_their_ties_are_trec_evals(write):
    path = write("1\tb\t2.5\n1\ta\t7.0\n1\tc\t2.5\n")
    assert lines(path) == [("1", "a", 1, 7.0), ("1", "c", 2, 2.5), ("1", "b", 3, 2.5)]
    assert order(path, break_ties="rank") == [("1", "a"), ("1", "b"), ("1", "c")]


def test_four_columns_of_colbert_have_ranks_and_scores(write):
    rows = ["1\t7\t1\t24.5", "1\t9\t2\t24.25", "1\t8\t3\t3.0", "2\t8\t1\t30", "2\t7\t2\t29"]
    expected = [
        ("1", "7", 1, 24.5),
        ("1", "9", 2, 24.25),
        ("1", "8", 3, 3.0),
        ("2", "8", 1, 30.0),
        ("2", "7", 2, 29.0),
    ]
    assert lines(write("\n".join(rows))) == expected
    assert lines(write("\n".join(rows).replace("\t", " "))) == expected
    mixed = [rows[n] for n in (2, 0, 1, 4, 3)]
    assert lines(write("\r\n".join(mixed))) == expected
    from_0 = "".join(f"1\tp{n}\t{n}\t{9 - n}\n" for n in range(3))
    assert order(write(from_0)) == [("1", "p0"), ("1", "p1"), ("1", "p2")]
    # A passage 0 at each query's first rank is no judgement.
    assert order(write("1\t0\t1\t9\n1\t5\t2\t7\n")) == [("1", "0"), ("1", "5")]


def test_colberts_scores_may_not_contradict_its_ranks(write):
    told = refused(write("1\ta\t1\t2.5\n1\tb\t2\t3.5\n"))
    assert "lines 1 and 2: expected scores that fall with the ranks of query 1" in told
    assert "found 2.5 before 3.5" in told


def test_numbers_that_are_texts_of_top1000_stay_texts(write):
    """One text a query, where ColBERT's ranks differ."""
    assert form_of(write("1\ta\t42\t7\n1\tb\t42\t8\n2\ta\t43\t7\n")) == "top1000"
    assert form_of(write("1\ta\t42\t7\n1\tb\t43\t8\n")) == "colbert"
    assert form_of(write("1\ta\t42\t7\n2\tb\t43\tx\n")) == "top1000"


def test_four_columns_that_may_be_either_are_refused_with_both_readings(write):
    told = refused(write("1\ta\t1\t24.5\n2\tb\t1\t23.5\n"))
    assert "ColBERT's query, passage, rank, score" in told
    assert "top1000's query, passage and two texts" in told
    header = "query_id\tpassage_id\trank\tscore\n"
    assert lines(write(f"{header}1\ta\t1\t24.5\n")) == [("1", "a", 1, 24.5)]
    header = "query_id\tpassage_id\tquery\ttext\n"
    assert order(write(f"{header}1\ta\t1\t24.5\n"), unordered=True) == [("1", "a")]


def test_a_passage_0_of_top1000_is_told_from_a_trec_line_without_its_tag_by_the_texts(write):
    assert form_of(write("q\t0\tword\tof two\nq\t1\tword\t7\n")) == "top1000"
    assert "is the tag missing?" in refused(write("q\t0\tD1\t1\t0.5\n"))


def test_tabs_belong_to_the_passage_in_every_line_of_top1000(write, caplog):
    rows = ["11\t5\thow to lock\tLock\tit\twell.", "11\t6\thow to lock\tKeys", "12\t6\tq\tx"]
    for start in range(3):
        path = write("\n".join(rows[start:] + rows[:start]))
        assert form_of(path) == "top1000"
        assert {*order(path)} == {("11", "5"), ("11", "6"), ("12", "6")}
    assert "in the order of the file, which measures nothing" in caplog.text
    assert form_of(write("11\t5\tq\tLock\tit\t30\twell\n11\t6\tq\tx\n")) == "top1000"
    for second in (" You can.", "\t6\tq\tx", "11\t\tq\tx"):
        assert "line 2: expected query, passage and two texts" in refused(
            write(f"11\t5\tq\tLock it.\n{second}\n")
        )


def test_a_trec_run_with_tabs_is_none_of_top1000(write):
    rows = [f"q{n}\tQ0\td{n}\t1\t3.5\tA" for n in range(3)]
    assert lines(write("\n".join(rows)))[1] == ("q1", "d1", 1, 3.5)
    assert form_of(write("q\tx\td1\t1\t3.5\tA\nq\tx\td2\t2\t2.5\tA\n")) == "trec"
    told = refused(write("q\tx\td1\t1\t3.5\tA\n"))
    assert "top1000's" in told and "TREC's query, Q0, passage" in told


def test_what_follows_the_sixth_column_is_left_out_as_in_trec_eval(write):
    rows = 'q1 Q0 d2 1 3.5 my run A\nq1 Q0 d1 2 3.0 A # {"title":"a","doc":"b c"}\n\nq2 Q0 d3 1 9 A'
    assert lines(write(rows)) == [("q1", "d2", 1, 3.5), ("q1", "d1", 2, 3.0), ("q2", "d3", 1, 9.0)]


def test_a_line_that_begins_with_a_hash_is_a_comment(write):
    rows = ["q1 Q0 d#2 1 3.5 A", "q1 Q0 #d 2 3.0 A", "q#2 Q0 d3 1 9 A"]
    expected = [("q1", "d#2"), ("q1", "#d"), ("q#2", "d3")]
    comments = ["# system A, default settings", "#", "  # k1 = 0.9 b 0.4", "# a\tb\tc\td\te\tf"]
    for at in range(3):
        text = "\n".join([*rows[:at], *comments, *rows[at:]])
        assert order(write(text)) == expected
        assert order(write(text.replace("\n", "\r\n"))) == expected
    assert refused(write("# only\n# comments\n")).endswith("no lines; expected a run")
    assert order(write("# of May\nd1\td2\t1\nd1\td3\t2\n")) == [("d1", "d2"), ("d1", "d3")]
    assert order(write("# of May\nqid,docno,rank\n1,a,1\n")) == [("1", "a")]
    told = refused(write("q1\tp1\t1\n#2\tp1\t1\n"))
    assert "line 2: a line that begins with # is a comment, and '#2\\tp1\\t1' has the col" in told


def test_comments_that_ir_measures_reads_as_lines_of_a_run_are_told_once(write, caplog):
    path = write("#1 Q0 a 1 2.5 x\n# k1 = 0.9 b 0.4\nq Q0 #a 1 2 x\n  #2 Q0 a 1 -1e-7 a tag\n")
    assert order(path) == [("q", "#a")] == [rows for part in read_parts(path) for rows in ids(part)]
    told = f"{path}: lines that begin with # are comments, as in trec_eval 10; ir_measures reads 2"
    told += " of them as a ranking (first: '#1 Q0 a 1 2.5 x')"
    assert [record.getMessage() for record in caplog.records] == [told, told]
    caplog.clear()
    read_run(write("# system A, all 4 5 6 parts\n#q Q0 a b c d\nq Q0 #a 1 2 x\n"))
    assert not caplog.records


def ids(run):
    return list(zip(run["query_id"].to_pylist(), run["passage_id"].to_pylist(), strict=True))


WORDS = st.text(st.sampled_from("ab#1.\u00e9\u3000\u00a0-"), min_size=1, max_size=4)
BLANKS = st.text(st.sampled_from(" \t"), min_size=1, max_size=3)
NUMBERS = st.floats(-1e6, 1e6, width=32).map(str) | st.integers(-99, 99).map(str)
AFTER = st.sampled_from(["", " ", "\t", " x", "\t# {}", " a b c"])
OTHERS = st.sampled_from(["", " ", "\t", "# a b c d e f g", " #", "#1 Q0 d 1 2 x"])


@st.composite
def trec_files(draw):
    """A file, and its lines cut at the sixth column as trec_eval's parser in C does."""
    pairs = draw(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=8, unique=True))
    text, plain = "", []
    for query, passage in pairs:
        if query.startswith("#"):
            query = "q" + query
        if (query, passage) in {(line[0], line[2]) for line in plain}:
            continue
        columns = [query, draw(WORDS), passage, draw(WORDS), draw(NUMBERS), draw(WORDS)]
        plain.append(columns)
        for other in draw(st.lists(OTHERS, max_size=2)):
            text += other + draw(st.sampled_from(["\n", "\r\n"]))
        text += draw(st.sampled_from(["", " ", "\t"]))
        text += "".join(word + draw(BLANKS) for word in columns[:-1]) + columns[-1]
        text += draw(AFTER) + draw(st.sampled_from(["\n", "\r\n"]))
    if draw(st.booleans()):
        text = text.removesuffix("\n")
    return draw(st.sampled_from(["", "\ufeff"])) + text, plain


@settings(deadline=None, max_examples=150, derandomize=True)
@given(trec_files(), st.sampled_from([bytes, gzip.compress, bz2.compress, zstandard.compress]))
def test_a_trec_file_is_read_as_by_trec_eval(tmp_path_factory, file, pack):
    text, plain = file
    path = tmp_path_factory.mktemp("run") / "run"
    path.write_bytes(pack(text.encode()))
    # pytrec_eval's parser is of Python, where U+3000 and U+00A0 are blanks; in trec_eval they are
    # letters of an id. So it gets letters in their place.
    letters = str.maketrans({"\u3000": "\u4e00", "\u00a0": "\u4e01"})
    back = str.maketrans({"\u4e00": "\u3000", "\u4e01": "\u00a0"})
    parsed = pytrec_eval.parse_run([" ".join(columns).translate(letters) for columns in plain])
    expected = {
        query.translate(back): {
            passage.translate(back): float(np.float32(score)) for passage, score in scores.items()
        }
        for query, scores in parsed.items()
    }
    try:
        run = read_run(path)
    except InputError as error:
        assert "every line may be" in str(error)  # with tabs it might be top1000
        return
    found = {}
    for row in run.to_pylist():
        found.setdefault(row["query_id"], {})[row["passage_id"]] = row["score"]
    assert found == expected
    for query, scores in found.items():  # best first, ties by passage id descending
        keys = [(score, passage.encode()) for passage, score in scores.items()]
        assert keys == sorted(keys, reverse=True), query


CELLS = st.text(st.sampled_from('ab1 ,;\t"\n#\u00e9'), max_size=5)
IDS = st.text(st.sampled_from('ab1,;"#\u00e9'), min_size=1, max_size=4)


@settings(deadline=None, max_examples=200, derandomize=True)
@given(
    st.lists(
        st.tuples(IDS, IDS, NUMBERS, CELLS), min_size=1, max_size=6, unique_by=lambda r: r[:2]
    ),
    st.sampled_from(",;\t"),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.sampled_from(["\n", "\r\n"]),
    st.permutations(range(4)),
)
def test_a_table_is_read_as_by_csv(tmp_path_factory, rows, separator, quoting, end, places):
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator, quoting=quoting, lineterminator=end)
    names = ("qid", "docno", "score", "text")
    writer.writerow([names[place] for place in places])
    writer.writerows([row[place] for place in places] for row in rows)
    path = tmp_path_factory.mktemp("run") / "run"
    path.write_text(text.getvalue(), newline="")
    expected = {row[:2]: float(np.float32(row[2])) for row in rows}
    found = read_run(path).to_pylist()
    assert {(row["query_id"], row["passage_id"]): row["score"] for row in found} == expected


def test_what_is_wrong_in_a_table_is_told_with_its_line(write):
    header = "query_id,passage_id,score\n"
    found = refused(write(f"{header}1,a,2\n1,b\n1,c,high\n1,d,1,x\n"))
    assert "line 3: expected the 3 columns query_id, passage_id, score; found 2 in '1,b'" in found
    assert "line 4: score: expected a number; found 'high'" in found
    assert "line 5: expected the 3 columns" in found
    assert "not CSV" in refused(write(f'{header}1,"a,2\n'))
    assert "is not UTF-8" in refused(write(header.encode() + b"1,\xff,2\n"))
    assert "no lines below the header" in refused(write(header))
    assert "line 2: white space or a control character" in refused(write(f"{header}1, a,2\n"))
    assert "line 2: empty passage id" in refused(write(f"{header}1,,2\n"))
    assert "lines 2, 3: query 1 ranks passage a 2 times" in refused(write(f"{header}1,a,2\n1,a,1"))
    assert "found score more than once" in refused(write("qid,pid,score,score\n1,a,1,2\n"))


def tables_of_pairs(folder):
    """The same unordered candidates in each form that has names, the numbers of some in int64."""
    columns = {"query_id": [2, 1, 2], "passage_id": [7, 30, 5], "title": ["x", "y", "z"]}
    table = pa.table(columns)
    pq.write_table(table, folder / "run.parquet")
    text = "query_id,passage_id,title\n2,7,x\n1,30,y\n2,5,z\n"
    (folder / "run.csv").write_text(text)
    (folder / "run.tsv.gz").write_bytes(gzip.compress(text.replace(",", "\t").encode()))
    return [folder / name for name in ("run.parquet", "run.csv", "run.tsv.gz")]


def test_candidates_without_an_order_stand_in_that_of_the_file_where_they_are_enough(tmp_path):
    for path in tables_of_pairs(tmp_path):
        assert is_unordered(path)
        found = [("2", "7", 1, 1.0), ("2", "5", 2, 0.5), ("1", "30", 1, 1.0)]
        assert lines(path, unordered=True) == found
        assert "expected a rank or a score for each passage, found neither" in refused(path)


@pytest.mark.parametrize("column", ["rank", "score"])
def test_a_table_with_ranks_or_scores_has_an_order(tmp_path, column):
    pq.write_table(pa.table({"qid": ["q"], "pid": ["p"], column: [1]}), tmp_path / "a")
    (tmp_path / "b").write_text(f"qid,pid,{column}\nq,p,1\n")
    assert not is_unordered(tmp_path / "a") and not is_unordered(tmp_path / "b")


def test_the_columns_of_a_table_that_are_not_read_are_told(write, caplog):
    caplog.set_level(logging.INFO)
    read_run(write(",qid,pid,score,name\n0,q,p,1,x\n"))
    assert "columns that are not read: one without a name, name" in caplog.text


def test_scores_that_contradict_the_ranks_of_a_table_are_told(tmp_path, caplog):
    table = pa.table({"qid": ["r", "q", "q"], "docno": list("aab"), "rank": [0, 0, 1]})
    for scores, told in (([1, 1, 2], True), ([1, 2, 2], False), ([1, 2, 1], False)):
        scored = table.append_column("score", [scores])
        pq.write_table(scored, tmp_path / "run")
        write_csv(scored, tmp_path / "run.csv")
        for name in ("run", "run.csv"):
            assert [line[1] for line in lines(tmp_path / name)] == ["a", "a", "b"]
            own = f"{tmp_path / name}: 1 queries: scores rise from one rank to the next"
            assert (own in caplog.text and "first: query q" in caplog.text) == told
            caplog.clear()


def test_ranks_need_every_query_to_begin_at_the_same_number():
    codes = np.array([0, 0, 1, 1], np.int32)
    assert third_column(codes, np.array([1.0, 2, 1, 2]), whole=True) == "msmarco"
    assert third_column(codes, np.array([0.0, 1, 0, 1]), whole=True) == "msmarco"
    with pytest.raises(InputError, match="neither 1 to n"):
        third_column(codes, np.array([1.0, 0, 1, 2]), whole=True)


@pytest.mark.parametrize(
    ("text", "unordered"),
    [
        ("q Q0 p 1 0.5 t\n", False),
        ("q\tp\t1\nq\tr\t2\n", False),  # ranks
        ("q\tp\t0.5\n", False),  # scores
        ("q\tp\t-1\nq\tr\t-1\n", True),
        ("q\tp\tthe query\tthe text\n", True),
    ],
)
def test_lines_with_ranks_or_scores_have_an_order(tmp_path, text, unordered):
    (tmp_path / "run").write_text(text)
    assert is_unordered(tmp_path / "run") == unordered
