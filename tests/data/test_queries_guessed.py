import pytest

from raypipe.data.files import records
from raypipe.data.queries import read_queries
from raypipe.errors import InputError


def test_queries_are_guessed_by_content_then_name(tmp_path):
    def read(name, text, **options):
        (tmp_path / name).write_text(text)
        return read_queries(tmp_path / name, **options)

    assert read("my.top1000.x", "1\t2\tq\tp\n") == [("1", "q")]
    assert read("top1000.jsonl", '{"qid": "1", "text": "q"}\n') == [("1", "q")]
    assert read("plain", "{1\tx\n", format="tsv") == [("{1", "x")]
    assert read("a.json", '{"query_id": "9", "id": "8", "text": ""}') == [("8", "")]
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
