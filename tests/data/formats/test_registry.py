import json
from pathlib import Path

import pytest

from raypipe.data.facts import FileFacts, count_file
from raypipe.data.formats.json_lines import parse_beir
from raypipe.data.formats.registry import FORMATS, Format, get_format
from raypipe.errors import InputError


def test_an_unknown_format_names_the_nearest():
    assert get_format("beir") is FORMATS["beir"]
    with pytest.raises(InputError, match="did you mean msmarco-v1"):
        get_format("msmarco_v1")


def test_a_format_far_from_all_has_no_nearest():
    with pytest.raises(InputError) as caught:
        get_format("zzzzzz")
    assert str(caught.value).endswith("trec-car, trec-car-tools, ir-datasets")
    assert [name for name, kind in FORMATS.items() if kind.stream] == ["ir-datasets"]
    assert all(kind.name == name for name, kind in FORMATS.items())


def test_a_stream_has_facts_over_its_records_with_their_lengths(monkeypatch):
    import hashlib

    def passages(source, start, stop):
        return iter([("a", "\u00e9"), ("bc", "")][start:stop])

    monkeypatch.setitem(FORMATS, "mini", Format(name="mini", files=list, stream=passages))
    content = b"".join(
        len(part).to_bytes(8, "little") + part for part in (b"a", b"\xc3\xa9", b"bc", b"")
    )
    assert count_file(Path("x/mini"), format="mini", checkpoint_records=7) == FileFacts(
        name="x/mini", num_bytes=37, sha256=hashlib.sha256(content).hexdigest(),
        md5=hashlib.md5(content).hexdigest(), num_records=2, compressed=False,
        checkpoint_records=7, checkpoints=(), stretches=(),
    )  # fmt: skip


def as_line(**fields) -> bytes:
    return json.dumps(fields).encode()


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
    assert parse_beir(as_line(_id="d1", **fields)) == ("d1", text)
