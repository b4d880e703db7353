import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from raypipe.data.formats.registry import format_of
from raypipe.errors import InputError


def test_a_file_tells_its_format_by_its_name_and_its_first_line(tmp_path):
    for name, content, form in [
        ("a.tsv", "1\ttext\n", "msmarco-v1"),
        ("a.txt", "1\ttext\n", "msmarco-v1"),
        ("a", "1\ttext\n", "msmarco-v1"),
        ("a.tsv", "docno\ttext\n1\ta\n", "csv"),
        ("a.csv", "docno,text\n1,a\n", "csv"),
        ("a", "_id;title;text\n1;a;b\n", "csv"),
        ("a.txt", "plain text\n", "txt"),
        ("a.jsonl", '{"id": "1", "contents": "a"}\n', "pyserini"),
        ("a.json", '{"_id": "1", "title": "", "text": "a"}\n', "beir"),
        ("a.jsonl", '{"pid": "1", "passage": "a"}\n', "msmarco-v2"),
        ("a.jsonl", '{"docno": "1", "text": "a"}\n', "jsonl"),
        ("a.jsonl", "{broken\n", "jsonl"),
        ("a.jsonl", "", "pyserini"),
    ]:
        (tmp_path / name).write_text(content)
        assert format_of(tmp_path / name) == form
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content.encode()))
        assert format_of(tmp_path / f"{name}.gz") == form


def test_documents_are_recognised_only_where_they_are_wanted(tmp_path):
    fields = dict.fromkeys(("docid", "url", "title", "headings", "body"), "a")
    for name, content, passages, documents in [
        ("a.tsv", "D1\thttps://a.org\ttitle\tbody\n", "msmarco-v1", "msmarco-doc-v1"),
        ("a.tsv", "1\ta text\twith\ttabs\n", "msmarco-v1", "msmarco-v1"),
        ("a.json", json.dumps(fields), "jsonl", "msmarco-doc-v2"),
        ("a.json", json.dumps({"docid": "a", "body": "a"}), "jsonl", "jsonl"),
    ]:
        (tmp_path / name).write_text(content)
        found = [format_of(tmp_path / name, documents=wanted) for wanted in (False, True)]
        assert found == [passages, documents]


def test_parquet_is_told_by_its_content(tmp_path):
    pq.write_table(pa.table({"id": ["1"], "text": ["a"]}), tmp_path / "data")
    assert format_of(tmp_path / "data") == "parquet"


def test_a_folder_has_the_format_of_its_files(tmp_path):
    (tmp_path / "notes.md").write_text("x")
    (tmp_path / "b.txt").write_text("x")
    assert format_of(tmp_path) == "txt"
    (tmp_path / "a.tsv").write_text("1\tx\n")
    assert format_of(tmp_path) == "msmarco-v1"
    (tmp_path / "corpus.jsonl.gz").write_bytes(b"")
    assert format_of(tmp_path) == "beir"


@pytest.mark.parametrize("content", ["plain text\n", "1,a\n", "[1]\n"])
def test_another_file_is_refused_with_what_is_expected(tmp_path, content):
    for name in ("notes.md", "a.csv"):
        (tmp_path / name).write_text(content)
        with pytest.raises(InputError, match=r"its format is unknown; expected lines of id TAB"):
            format_of(tmp_path / name)
    (tmp_path / "a.csv").unlink()
    with pytest.raises(InputError, match="its format is unknown; expected lines of id TAB"):
        format_of(tmp_path)


def test_a_folder_with_its_files_in_another_is_told_where_they_are(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train-0.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=f"a BEIR folder or irds:ID; {tmp_path}/data has such"):
        format_of(tmp_path)


def test_a_folder_of_hugging_faces_save_to_disk_is_told_by_its_arrow_file(tmp_path):
    (tmp_path / "dataset_info.json").write_text("{}")
    (tmp_path / "data-00000-of-00001.arrow").write_bytes(b"\xff" * 4 + b"\x10\0\0\0")
    with pytest.raises(InputError, match=r"of-00001\.arrow: .*load_from_disk"):
        format_of(tmp_path)
