import json

import pytest

from raypipe.data.formats import beir, irds, msmarco, pyserini
from raypipe.data.formats.registry import FORMATS, get_format
from raypipe.errors import InputError


def as_line(**fields) -> bytes:
    return json.dumps(fields).encode()


@pytest.mark.parametrize(
    ("record", "passage"),
    [
        (b"7\thello", ("7", "hello")),
        (b"7\ta\tb\t", ("7", "a\tb\t")),
        (b"7\t  two blanks  ", ("7", "  two blanks  ")),
        (b"7\t", ("7", "")),
        (b'7\t"quoted', ("7", '"quoted')),
        (b"7\tNA", ("7", "NA")),
        (b"null\tnull", ("null", "null")),
        (b"007\tx", ("007", "x")),
        (b"D12/a%20b(c)\tx", ("D12/a%20b(c)", "x")),
    ],
)
def test_v1_splits_at_the_first_tab_and_strips_nothing(record, passage):
    assert msmarco.parse_v1(record) == passage


@pytest.mark.parametrize(
    ("record", "cause"),
    [
        (b"no tab", "found no tab in 'no tab'"),
        (b"", "found no tab"),
        (b"\ttext", "empty id"),
        (b"a b\ttext", "white space"),
        (b" 1\ttext", "white space"),
        (b"1\r\ttext", "control"),
        (b"1\x00\ttext", "control"),
        ("1\u00a0\ttext".encode(), "white space"),
        ("\ufeff1\ttext".encode(), "white space or a control"),
    ],
)
def test_v1_refuses_what_would_break_a_run_file(record, cause):
    with pytest.raises(ValueError, match=cause):
        msmarco.parse_v1(record)


def test_v2_reads_pid_and_passage():
    record = as_line(pid="msmarco_passage_41_7", passage="a\n\u2028b", spans="(0,3)", docid="d")
    assert msmarco.parse_v2(record) == ("msmarco_passage_41_7", "a\n\u2028b")


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"title": "T", "text": "x"}, "T x"),
        ({"title": "", "text": "x"}, "x"),
        ({"title": None, "text": "x"}, "x"),
        ({"text": " x "}, " x "),
        ({"title": "T", "text": ""}, "T "),
    ],
)
def test_beir_puts_a_title_that_is_there_before_the_text(fields, text):
    assert beir.parse(as_line(_id="d1", **fields)) == ("d1", text)


@pytest.mark.parametrize("field", ["id", "_id", "docid"])
def test_pyserini_takes_any_of_its_three_id_fields(field):
    assert pyserini.parse(as_line(contents="a\nb", **{field: "x"})) == ("x", "a\nb")


def test_an_integer_id_becomes_a_string():
    assert pyserini.parse(b'{"id": 12, "contents": "x"}') == ("12", "x")


@pytest.mark.parametrize(
    ("record", "cause"),
    [
        (b"", "not valid JSON"),
        (b"{'id': 1}", "not valid JSON"),
        (b"[1]", "expected a JSON object"),
        (b'{"contents": "x"}', 'expected a field "id" or "_id" or "docid", found \'contents\''),
        (b'{"id": "1"}', "expected a field \"contents\", found 'id'"),
        (b'{"id": "1", "contents": null}', 'expected a string in "contents", found None'),
        (b'{"id": 1.5, "contents": "x"}', 'expected a string in "id", found 1.5'),
        (b'{"id": true, "contents": "x"}', 'expected a string in "id", found True'),
        (b'{"id": "", "contents": "x"}', "empty id"),
        (b'{"id": "a\\tb", "contents": "x"}', "white space"),
        (b'{"id":"1","contents":"x"}{"id":"2","contents":"y"}', "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
    ],
)
def test_json_records_say_what_was_expected_and_found(record, cause):
    with pytest.raises(ValueError) as caught:
        pyserini.parse(record)
    assert cause in str(caught.value) and len(str(caught.value)) < 250


def test_json_with_nul_bytes_is_not_taken_for_utf16():
    with pytest.raises(ValueError, match="not valid JSON"):
        pyserini.parse(b'{\0"\0i\0d\0"\0:\0')


def make(folder, *names):
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_bytes(b"")
    return folder


def test_parts_are_read_in_natural_order(tmp_path):
    names = [f"msmarco_passage_{n}.gz" for n in (10, 2, 1, 0)]
    folder = make(tmp_path, *names, "README", ".hidden.json", "msmarco_passage_0.gz.md5")
    found = msmarco.v2_files([folder])
    assert [path.name for path in found] == [f"msmarco_passage_{n}.gz" for n in (0, 1, 2, 10)]
    assert msmarco.v2_files(found[::-1]) == found


def test_order_depends_on_names_not_on_where_the_folders_are(tmp_path):
    b = make(tmp_path / "b", "part_1.jsonl")
    a = make(tmp_path / "a", "part_2.jsonl")
    assert [path.name for path in pyserini.files([a, b])] == ["part_1.jsonl", "part_2.jsonl"]


def test_a_folder_gives_the_collection_and_not_the_queries(tmp_path):
    names = ("collection.tsv.gz", "queries.dev.tsv", "qrels.dev.tsv")
    folder = make(tmp_path / "v1", *names)
    assert msmarco.v1_files([folder]) == [folder / "collection.tsv.gz"]
    folder = make(tmp_path / "beir", "corpus.jsonl.gz", "queries.jsonl.gz")
    assert beir.files([folder]) == [folder / "corpus.jsonl.gz"]


def test_a_file_named_is_taken_whatever_its_name(tmp_path):
    path = make(tmp_path, "anything") / "anything"
    for read_files in (msmarco.v1_files, msmarco.v2_files, beir.files, pyserini.files):
        assert read_files([path]) == [path]


def test_the_same_content_under_two_names_is_refused(tmp_path):
    folder = make(tmp_path, "corpus.jsonl", "corpus.jsonl.gz")
    with pytest.raises(InputError, match="the same file as"):
        beir.files([folder])
    with pytest.raises(InputError, match="the same file as"):
        beir.files([folder / "corpus.jsonl", folder / "." / "corpus.jsonl"])


def test_every_problem_with_the_inputs_is_listed(tmp_path):
    make(tmp_path / "empty")
    archive = make(tmp_path, "collectionandqueries.tar.gz") / "collectionandqueries.tar.gz"
    with pytest.raises(InputError) as caught:
        msmarco.v1_files([tmp_path / "none.tsv", tmp_path / "empty", archive])
    causes = ("no such file", "no file of this format", "an archive; unpack it")
    assert len(caught.value.problems) == 3
    assert all(c in problem for c, problem in zip(causes, caught.value.problems, strict=True))
    with pytest.raises(InputError, match="no input named"):
        msmarco.v1_files([])


def test_an_unknown_format_names_the_nearest():
    assert get_format("beir") is FORMATS["beir"]
    with pytest.raises(InputError, match="did you mean msmarco-v1"):
        get_format("msmarco_v1")


def test_ir_datasets_absent_is_an_input_error_with_the_command(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "ir_datasets", None)
    with pytest.raises(InputError, match=r"pip install 'raypipe\[ir-datasets\]'"):
        irds.files([tmp_path / "x"])


class Doc:
    def __init__(self, doc_id, title, body):
        self.doc_id, self.title, self.body = doc_id, title, body

    def default_text(self):
        return f"{self.title} {self.body}"


class Sliceable:
    def __init__(self, docs):
        self.docs_iter = lambda: docs


class Generated:
    def __init__(self, docs):
        self.docs_iter = lambda: (doc for doc in docs)


@pytest.mark.parametrize("kind", [Sliceable, Generated])
def test_ir_datasets_passages_are_a_range_of_default_texts(kind):
    docs = [Doc(f"d{n}", f"t{n}", "b") for n in range(9)]
    passages = [(f"d{n}", f"t{n} b") for n in range(9)]
    for start, stop in [(0, None), (0, 3), (4, 9), (9, None), (3, 3)]:
        found = list(irds.dataset_passages(kind(docs), start, stop, name="mini"))
        assert found == passages[start:stop]


def test_ir_datasets_bad_ids_are_refused_by_record():
    docs = [Doc("a", "", ""), Doc("b c", "", "")]
    with pytest.raises(InputError, match="mini: record 2: white space"):
        list(irds.dataset_passages(Sliceable(docs), 0, None, name="mini"))
