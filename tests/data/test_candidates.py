import gzip

import pytest

from raypipe.data.candidates import parse_candidate, read_candidates
from raypipe.errors import InputError


def test_a_candidates_further_tabs_belong_to_the_passage():
    assert parse_candidate(b"q\tp\tthe query\ta\tb") == ("q", "p", "the query")
    assert parse_candidate(b"q\tp\t\t") == ("q", "p", "")
    with pytest.raises(ValueError, match="four tab-separated columns.*found 3 in 'q.tp.tx'"):
        parse_candidate(b"q\tp\tx")
    for bad, field in ((b"\tp\tq\tx", "query id"), (b"q\tp p\tq\tx", "passage id")):
        with pytest.raises(ValueError, match=field):
            parse_candidate(bad)


def write(folder, content, name="queries.tsv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


TOP1000 = (
    "2\t77\tquery two\ttext a\n"
    "1\t5\tquery one\ttext b\twith tab\n"
    "2\t5\tquery two\ttext b\n"
    '3\t9\tquery two\t"\n'
)


def test_candidates_come_in_file_order_unsorted(tmp_path):
    path = write(tmp_path, gzip.compress(TOP1000.encode()), "top1000.dev.gz")
    assert list(read_candidates(path)) == [("2", "77"), ("1", "5"), ("2", "5"), ("3", "9")]


def test_candidates_are_streamed_and_problems_come_at_the_end(tmp_path):
    path = write(tmp_path, "1\t5\tq\tx\n1\t6\tq\n\t7\tq\tx\n1\t8\tq\tx\n", "top1000.dev")
    candidates = read_candidates(path)
    assert [next(candidates), next(candidates)] == [("1", "5"), ("1", "8")]
    with pytest.raises(InputError) as caught:
        next(candidates)
    assert [problem.split(": ")[1] for problem in caught.value.problems] == ["line 2", "line 3"]
