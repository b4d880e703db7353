import pytest

from raypipe.data.formats.msmarco import parse_candidate


def test_a_candidates_further_tabs_belong_to_the_passage():
    assert parse_candidate(b"q\tp\tthe query\ta\tb") == ("q", "p", "the query")
    assert parse_candidate(b"q\tp\t\t") == ("q", "p", "")
    with pytest.raises(ValueError, match="four tab-separated columns.*found 3 in 'q.tp.tx'"):
        parse_candidate(b"q\tp\tx")
    for bad, field in ((b"\tp\tq\tx", "query id"), (b"q\tp p\tq\tx", "passage id")):
        with pytest.raises(ValueError, match=field):
            parse_candidate(bad)
