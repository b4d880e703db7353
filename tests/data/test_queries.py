import csv
import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from foreign_tools import FOREIGN
from foreign_tools import QUERIES as FOREIGN_QUERIES

from raypipe.data import records
from raypipe.data.qrels import read_qrels
from raypipe.data.queries import doubts_of, read_queries
from raypipe.errors import InputError


def write(folder, content, name="queries.tsv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_ids_stay_strings_and_texts_are_not_stripped(tmp_path):
    content = (
        "007\t  leading blank\n7\tNA\n19335\tanthropological definition\r\n2\ttab\there\n9\t\n"
    )
    assert read_queries(write(tmp_path, content)) == [
        ("007", "  leading blank"),
        ("7", "NA"),
        ("19335", "anthropological definition"),
        ("2", "tab\there"),
        ("9", ""),
    ]


def test_lines_that_end_with_returns_alone_are_refused_but_a_text_may_have_one(tmp_path):
    for content in ("1\ta\r2\tb\r", "qid,query\r1,a\r2,b", "qid\tquery\r1\ta\r"):
        with pytest.raises(InputError, match="no line feed in the file.* convert it: tr"):
            read_queries(write(tmp_path, content))
    assert read_queries(write(tmp_path, "1\ta\rb\n")) == [("1", "a\rb")]
    assert read_queries(write(tmp_path, "1\ta\r")) == [("1", "a")]


def test_two_ids_may_share_a_text(tmp_path):
    assert read_queries(write(tmp_path, "1\tsame\n2\tsame\n")) == [("1", "same"), ("2", "same")]


def test_trec_car_ids_are_kept_as_they_are(tmp_path):
    query_id = "enwiki:Taste/A%20(b)"
    assert read_queries(write(tmp_path, query_id + "\tTaste A b\n")) == [(query_id, "Taste A b")]


def test_repeated_ids_are_refused_the_first_ten_with_both_lines(tmp_path):
    path = write(tmp_path, "".join(f"{n % 12}\tq{n}\n" for n in range(24)))
    with pytest.raises(InputError) as caught:
        read_queries(path)
    assert len(caught.value.problems) == 11
    assert "line 13: query id '0' again with another text, first in line 1" in str(caught.value)
    assert caught.value.problems[-1] == "and 2 more problems"


def test_beir_queries_from_the_folder(tmp_path):
    lines = b'{"_id": "PLAIN-1", "text": "a"}\n{"_id": "PLAIN-2", "text": "b", "metadata": {}}\n'
    write(tmp_path, gzip.compress(lines), "queries.jsonl.gz")
    write(tmp_path, b"", "corpus.jsonl")
    assert read_queries(tmp_path) == [("PLAIN-1", "a"), ("PLAIN-2", "b")]


def test_json_lines_are_found_by_content_and_bom_is_no_matter(tmp_path):
    path = write(tmp_path, '\ufeff{"_id": 3, "text": "a"}\n', "topics.txt")
    assert read_queries(path) == [("3", "a")]


TOP1000 = (
    "2\t77\tquery two\ttext a\n"
    "1\t5\tquery one\ttext b\twith tab\n"
    "2\t5\tquery two\ttext b\n"
    '3\t9\tquery two\t"\n'
)


def test_a_top1000_file_gives_its_distinct_queries_in_first_seen_order(tmp_path):
    path = write(tmp_path, TOP1000, "msmarco-passagetest2019-top1000.tsv")
    assert read_queries(path) == [("2", "query two"), ("1", "query one"), ("3", "query two")]
    renamed = write(tmp_path, TOP1000, "candidates.tsv")
    with pytest.raises(InputError, match="query id '2' again"):
        read_queries(renamed)


def test_a_top1000_file_with_two_texts_for_a_query_is_refused(tmp_path):
    path = write(tmp_path, "1\t5\tone\tx\n1\t6\tuno\tx\n", "top1000.dev")
    with pytest.raises(InputError, match="line 2: query id '1' again with another text"):
        read_queries(path)


def test_queries_are_guessed_by_content_then_name(tmp_path):
    def read(name, text):
        (tmp_path / name).write_text(text)
        return read_queries(tmp_path / name)

    assert read("my.top1000.x", "1\t2\tq\tp\n") == [("1", "q")]
    assert read("top1000.jsonl", '{"qid": "1", "text": "q"}\n') == [("1", "q")]
    assert read("a.json", '{"query_id": "9", "id": "8", "text": ""}') == [("9", "")]
    same = '{"_id": "1", "text": "q"}\n' * 2
    with pytest.raises(
        InputError, match="line 2: query id '1' again with the same text, first in line 1"
    ):
        read("b.jsonl", same)


def test_the_file_whose_first_line_is_too_long_is_named(tmp_path, monkeypatch):
    path = tmp_path / "queries.txt"
    path.write_text("1\t" + "x" * 99)
    monkeypatch.setattr(
        records.lines, "__kwdefaults__", {**records.lines.__kwdefaults__, "max_line_bytes": 9}
    )
    with pytest.raises(InputError, match=r"queries\.txt: line 1"):
        read_queries(path)


def test_queries_of_pyterrier_are_read_as_it_wrote_them():
    assert read_queries(FOREIGN / "pyterrier.topics.csv") == FOREIGN_QUERIES


@pytest.mark.parametrize(
    "content",
    [
        "qid,query\n007,a b\n7,c\n",
        "query_id;text\n007;a b\n7;c\n",
        ',qid,"text"\r\n0,007,"a b"\r\n\r\n1,7,c\r\n',
        "\ufeffqid\tquery\n007\ta b\n7\tc\n",
        "text\tquery-id\na b\t007\nc\t7\n",
        '{"qid": "007", "query": "a b"}\n{"query_id": "7", "text": "c"}\n',
    ],
)
def test_a_header_or_other_fields_name_the_same_queries(tmp_path, content):
    assert read_queries(write(tmp_path, content)) == [("007", "a b"), ("7", "c")]


def test_csv_may_have_line_breaks_and_doubled_quotes_and_a_tab_separated_file_has_no_quotes(
    tmp_path,
):
    path = write(tmp_path, 'qid,query\n1,"a ""b""\n, c"\n')
    assert read_queries(path) == [("1", 'a "b"\n, c')]
    assert read_queries(write(tmp_path, 'qid\tquery\n1\t"a\n')) == [("1", '"a')]


def test_parquet_queries_have_any_name_of_the_field(tmp_path):
    for columns in ({"query": ["a", "b"], "qid": [1, 2]}, {"_id": ["1", "2"], "text": ["a", "b"]}):
        pq.write_table(pa.table(columns), tmp_path / "queries.parquet")
        assert read_queries(tmp_path / "queries.parquet") == [("1", "a"), ("2", "b")]


def test_of_two_columns_of_one_name_the_first_counts(tmp_path):
    assert read_queries(write(tmp_path, "qid,QID,query\n1,2,a\n")) == [("1", "a")]


@pytest.mark.parametrize("query_id", ["query_id", "qid", "q_id", "Query-Id", "_id", "ID"])
@pytest.mark.parametrize("text", ["text", "Query", "query_text", "title"])
def test_fields_of_json_lines_have_any_name_that_a_column_may_have(tmp_path, query_id, text):
    path = write(tmp_path, f'{{"{text}": "a b", "{query_id}": 7, "more": null}}\n', "q.jsonl")
    assert read_queries(path) == [("7", "a b")]


def test_a_text_in_csv_may_be_long_whatever_was_read_before(tmp_path):
    long = "a" * 200_000
    csv.field_size_limit(131_072)  # Python's own
    assert read_queries(write(tmp_path, f'qid,query\n1,"{long}"\n')) == [("1", long)]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
def test_one_long_text_in_many_rows_of_a_parquet_file_is_held_once_and_refused(tmp_path, kind):
    path, same = tmp_path / "queries.parquet", pa.array([0] * 10_000, pa.int32())
    texts = pa.DictionaryArray.from_arrays(same, pa.array(["a" * 100_000], kind))
    rows = pa.table({"query_id": [f"q{row}" for row in range(10_000)], "text": texts})
    pq.write_table(rows, path)
    before = pa.default_memory_pool().max_memory()
    with pytest.raises(InputError, match=r"queries\.parquet: expected at most 200 times its"):
        read_queries(path)
    assert pa.default_memory_pool().max_memory() - before < 64 << 20


def test_many_rows_of_one_number_are_refused_before_they_are_read(tmp_path):
    path, ones = tmp_path / "qrels.parquet", pa.array([1] * 5_000_000)
    names = ["query_id", "passage_id", "relevance"]
    pq.write_table(pa.table([ones, ones, ones], names), path)
    with pytest.raises(InputError, match=r"qrels\.parquet: expected at most 200 times its"):
        read_qrels(path)


@pytest.mark.parametrize(
    "content",
    [
        "# the pilot\n\n007\ta b\n",
        "007\ta b\n# the pilot\n",
        "# the pilot\n\nqid\tquery\n007\ta b\n# the end\n",
        '# the pilot\n\nqid,query\n007,"a b"\n',
    ],
)
def test_a_line_that_begins_with_the_mark_and_has_no_tab_is_a_comment(tmp_path, content):
    if content.startswith("# the pilot\n\n007"):
        content = content.replace("\n\n", "\n")
    assert read_queries(write(tmp_path, content)) == [("007", "a b")]


def test_ids_may_begin_with_the_mark_of_a_comment_if_all_do(tmp_path):
    assert read_queries(write(tmp_path, "#1\ta\n#2\tb\n")) == [("#1", "a"), ("#2", "b")]
    for content in ("#qid\tquery\n1\ta\n", "1\ta\n#2\tb\n", "# c\n#2\tb\n"):
        with pytest.raises(
            InputError, match=r"line [12]: it begins with # and has a tab: a comment"
        ):
            read_queries(write(tmp_path, content))


def test_a_line_behind_a_comment_and_a_header_is_counted_from_the_first_of_the_file(tmp_path):
    with pytest.raises(InputError, match="line 5: unexpected end of data"):
        read_queries(write(tmp_path, '# a\n\nqid,query\n1,a\n2,"b\n'))


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (['"oak"', '"pine"'], True),
        (['"an ""oak"" "', "pine"], True),
        (['"oak\ttree"', "pine"], True),
        (['"oak"', "pine"], False),
        (['"oak"'], False),
        (['"oak" and "pine"', '"a"'], False),
        (['an ""oak""', '"a ""b"""'], False),
        (['"', '"'], False),
        (["oak"], False),
    ],
)
def test_quotes_of_a_csv_writer_are_told_and_kept(tmp_path, texts, told):
    read = read_queries(write(tmp_path, "".join(f"{n}\t{text}\n" for n, text in enumerate(texts))))
    assert [text for _, text in read] == texts
    assert [line.startswith("the quotes around texts") for line in doubts_of(read)] == [True] * told


def test_empty_queries_are_counted():
    assert doubts_of([("1", "a"), ("2", " "), ("3", "")]) == ["2 of 3 queries have no text: 2, 3"]


def test_below_a_header_in_quotes_tabs_separate_the_columns_of_csv(tmp_path):
    """pandas writes it so with sep="\\t" and quoting=QUOTE_ALL."""
    path = tmp_path / "queries.tsv"
    path.write_text('"qid"\t"query"\n"01"\t"a ""b"" c"\n"2"\t"one\ttwo"\n')
    assert read_queries(path) == [("01", 'a "b" c'), ("2", "one\ttwo")]
    path.write_text('"qid"\t"query"\n"01"\t"one"\n')
    assert read_queries(path) == [("01", "one")]
    path.write_text('qid\tquery\n01\t"one"\n')
    assert read_queries(path) == [("01", '"one"')]
