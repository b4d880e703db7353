import json

import pytest

from raypipe.data.formats.registry import get_format


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
    assert get_format("msmarco-v1").parse(record) == passage


@pytest.mark.fault(40, "9 of 9 lines of a collection without a fit id are refused")
@pytest.mark.parametrize(
    ("record", "cause"),
    [
        (b"no tab", "found no tab in 'no tab'"),
        (b"", "found an empty line; delete it"),
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
        get_format("msmarco-v1").parse(record)


def test_v2_reads_pid_and_passage():
    record = as_line(pid="msmarco_passage_41_7", passage="a\n\u2028b", spans="(0,3)", docid="d")
    assert get_format("msmarco-v2").parse(record) == ("msmarco_passage_41_7", "a\n\u2028b")
