import bz2
import gzip
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from raypipe.data.facts import FileFacts, count_file
from raypipe.data.formats.registry import FORMATS, Format
from raypipe.data.reading import Tally, read_records
from raypipe.errors import CorruptError, InputError

PACK = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}


# One record for each way in which other readers lose or split records.
HARD = [
    (b"\xef\xbb\xbf0\tafter a byte order mark\n", "after a byte order mark"),
    (b'1\t"quoted" and "unclosed\n', '"quoted" and "unclosed'),
    (b"2\tnext\xc2\x85line\n", "next\u0085line"),
    (b"3\tline\xe2\x80\xa8separator\n", "line\u2028separator"),
    (b"4\tvertical\x0btab\n", "vertical\vtab"),
    (b"5\tlone\rreturn\n", "lone\rreturn"),
    (b"6\tnul\x00byte\n", "nul\0byte"),
    (b"7\t\n", ""),
    (b"8\t" + b"long " * 200_000 + b"\n", "long " * 200_000),
    (b"9\tbad \xff\xfe bytes\n", "bad \ufffd\ufffd bytes"),
    (b"10\twindows line\r\n", "windows line"),
    (b"11\tNA\n", "NA"),
    (b"12\tnull\n", "null"),
    (b"13\ttab\tin the text\t\n", "tab\tin the text\t"),
    (b"14\t   \n", "   "),
    (
        "15\t\U0001f600 \u0627\u0644 e\u0301, no newline".encode(),
        "\U0001f600 \u0627\u0644 e\u0301, no newline",
    ),
]


HARD_TEXTS = [(str(row), text) for row, (_, text) in enumerate(HARD)]


def write(folder: Path, content: bytes, name: str = "collection.tsv") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def read(path: Path, facts: FileFacts, start: int = 0, stop: int | None = None, **options):
    stop = facts.num_records if stop is None else stop
    options = {"format": "msmarco-v1"} | options
    return list(read_records(path, start=start, stop=stop, facts=facts, **options))


@pytest.mark.fault(30, "16 of 16 hard records, each with its text, plain and in 3 compressions")
@pytest.mark.parametrize("suffix", PACK)
def test_the_file_of_16_hard_records_has_16_and_each_text_survives(tmp_path, suffix):
    content = b"".join(line for line, _ in HARD)
    path = write(tmp_path, PACK[suffix](content), "collection.tsv" + suffix)
    facts = count_file(path, format="msmarco-v1")
    assert facts.num_records == 16
    tally = Tally()
    assert read(path, facts, errors="replace", tally=tally) == HARD_TEXTS
    assert tally == Tally(num_replaced=1, num_blank=2)
    with pytest.raises(InputError, match=r"collection\.tsv\S*: line 10: not UTF-8") as caught:
        read(path, facts)
    assert len(caught.value.problems) == 1


@pytest.mark.parametrize("suffix", PACK)
def test_a_file_rewritten_with_as_many_bytes_and_lines_is_found(tmp_path, suffix):
    good = b"".join(b"%d\tpassage %d\n" % (row, row) for row in range(9))
    path = write(tmp_path, PACK[suffix](good), "x.tsv" + suffix)
    facts = count_file(path, format="msmarco-v1", checkpoint_records=2)
    asked = {"format": "msmarco-v1", "facts": facts}
    assert len(list(read_records(path, start=3, stop=6, **asked))) == 3
    write(tmp_path, PACK[suffix](good.replace(b"passage 5", b"intruder5")), "x.tsv" + suffix)
    touched = [(3, 6), (5, 6), (4, 5), (0, 9)]
    for start, stop in touched:
        with pytest.raises(CorruptError, match="not the file that was counted"):
            list(read_records(path, start=start, stop=stop, **asked))
    if not suffix:
        assert len(list(read_records(path, start=0, stop=4, **asked))) == 4, "other stretches"
        assert len(list(read_records(path, start=6, stop=9, **asked))) == 3


texts = st.lists(
    st.text(st.sampled_from('ab \t\r\v\0\u2028\u0085\ufeff\U0001f600"'), max_size=6), max_size=25
)


@pytest.mark.fault(30, "random texts with these characters, cut anywhere, equal the whole")
@pytest.mark.parametrize("suffix", PACK)
@settings(deadline=None)  # a busy machine takes its time over files
@given(texts=texts, bom=st.booleans(), ended=st.booleans(), every=st.integers(1, 7), data=st.data())
def test_ranges_of_any_cut_equal_the_whole(
    tmp_path_factory, suffix, texts, bom, ended, every, data
):
    lines = [f"{row}\t{text}" for row, text in enumerate(texts)]
    content = (
        ("\ufeff" if bom and texts else "") + "\n".join(lines) + ("\n" if ended and lines else "")
    )
    folder = tmp_path_factory.mktemp("cuts")
    path = write(folder, PACK[suffix](content.encode()), "x.tsv" + suffix)
    facts = count_file(path, format="msmarco-v1", checkpoint_records=every)
    expected = [(str(row), text.removesuffix("\r")) for row, text in enumerate(texts)]
    assert facts.num_records == len(texts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(texts)), max_size=4)))
    bounds = list(zip([0, *cuts], [*cuts, len(texts)], strict=True))
    parts = [read(path, facts, start, stop) for start, stop in bounds]
    assert sum(parts, []) == expected
    assert [len(part) for part in parts] == [stop - start for start, stop in bounds]


def test_the_first_ten_problems_are_named_by_line_and_the_rest_counted(tmp_path):
    lines = [b"%d\tgood\n" % row if row % 2 else b"%d no tab\n" % row for row in range(30)]
    path = write(tmp_path, b"".join(lines))
    facts = count_file(path, format="msmarco-v1", checkpoint_records=4)
    with pytest.raises(InputError) as caught:
        read(path, facts, 6, 30)
    problems = caught.value.problems
    assert [p.split(": ")[1] for p in problems[:-1]] == [f"line {n}" for n in range(7, 27, 2)]
    assert str(path) in problems[0] and "'6 no tab'" in problems[0]
    assert problems[-1] == "and 2 more problems"


@pytest.mark.fault(33, "half a surrogate pair is refused or replaced, a whole one is text")
@pytest.mark.parametrize("errors", ["strict", "replace"])
def test_half_a_surrogate_pair_is_bad_utf8_and_a_whole_pair_is_text(tmp_path, errors):
    content = b'{"id":"a","contents":"\\ud83d\\ude00"}\n{"id":"b","contents":"x\\ud800y"}\n'
    path = write(tmp_path, content, "x.jsonl")
    facts = count_file(path, format="pyserini")
    if errors == "strict":
        with pytest.raises(InputError, match="line 2: not UTF-8"):
            read(path, facts, format="pyserini")
        return
    tally = Tally()
    found = read(path, facts, format="pyserini", errors="replace", tally=tally)
    assert found == [("a", "\U0001f600"), ("b", "x\ufffdy")] and tally.num_replaced == 1


@pytest.mark.fault(30, "an id that is not UTF-8 is refused where texts are replaced too")
@pytest.mark.parametrize(
    ("name", "content", "format"),
    [
        ("x.tsv", b"a\xff\tb\n", "msmarco-v1"),
        ("x.jsonl", b'{"id":"a\\ud800","contents":"b"}\n', "pyserini"),
    ],
)
def test_an_id_is_never_replaced(tmp_path, name, content, format):
    path = write(tmp_path, content, name)
    with pytest.raises(InputError, match="line 1: the id .* is not UTF-8; ids are never replaced"):
        read(path, count_file(path, format=format), format=format, errors="replace")


@pytest.mark.parametrize("suffix", PACK)
def test_a_file_that_changed_since_it_was_counted_is_corrupt(tmp_path, suffix):
    lines = [b"%d\tx\n" % row for row in range(10)]
    path = write(tmp_path, PACK[suffix](b"".join(lines)), "x.tsv" + suffix)
    facts = count_file(path, format="msmarco-v1", checkpoint_records=2)
    write(tmp_path, PACK[suffix](b"".join(lines) + b"10\tmore"), path.name)
    with pytest.raises(CorruptError, match="not the file that was counted"):
        read(path, facts)


@pytest.mark.parametrize("start", [0, 4])
def test_a_change_that_keeps_the_size_is_found_where_records_moved(tmp_path, start):
    path = write(tmp_path, b"0\ta\n1\tb\n2\tc\n3\td\n4\te\n5\tf\n")
    facts = count_file(path, format="msmarco-v1", checkpoint_records=2)
    write(tmp_path, b"0\ta\n1\tb\n2\tc\n3\td\t4\te\n5\tf\n")
    with pytest.raises(CorruptError, match="no record begins at byte 16|6 expected, 5|from byte 8"):
        read(path, facts, start, 6)


def test_a_format_without_lines_is_counted_and_read_by_its_stream(tmp_path, monkeypatch):
    passages = [("a", "x"), ("b", ""), ("c", "z")]

    def stream(source, start, stop):
        return iter(passages[start:stop])

    monkeypatch.setitem(FORMATS, "mini", Format(name="mini", files=list, stream=stream))
    source = Path("mini/train")
    facts = count_file(source, format="mini")
    assert (facts.name, facts.num_records, facts.checkpoints) == ("mini/train", 3, ())
    assert read(source, facts, 1, 3, format="mini") == passages[1:]
    fewer = passages[:2]
    less = Format(name="less", files=list, stream=lambda of, *span: iter(fewer[slice(*span)]))
    monkeypatch.setitem(FORMATS, "less", less)
    with pytest.raises(CorruptError, match="train: not the .* records 0 to 3 expected, 2 found"):
        read(source, facts, 0, 3, format="less")
    assert read(source, facts, 3, 3, format="less") == []
    passages[1] = ("bx", "")
    changed = count_file(source, format="mini")
    passages[0], passages[1] = ("a", "xb"), ("x", "")
    assert len({facts.sha256, changed.sha256, count_file(source, format="mini").sha256}) == 3
