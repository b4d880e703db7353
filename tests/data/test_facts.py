"""What a file or stream of records is: counted, hashed, with places to begin reading."""

import bz2
import gzip
import hashlib
import json
from pathlib import Path

import pytest
import zstandard

from raypipe.data import facts
from raypipe.data.facts import FileFacts, check_unchanged, count_file, from_json, to_json
from raypipe.data.reading import Tally, read_records
from raypipe.errors import CorruptError, InputError

PACK = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}


def write(folder: Path, content: bytes, name: str = "collection.tsv") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def sha256(data):
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("suffix", PACK)
def test_facts_are_of_the_raw_bytes(tmp_path, suffix):
    content = b"0\ta\n1\tb\n2\tc"
    packed = PACK[suffix](content)
    path = write(tmp_path, packed, "x.tsv" + suffix)
    assert count_file(path, format="msmarco-v1", checkpoint_records=2) == FileFacts(
        name="x.tsv" + suffix,
        num_bytes=len(packed),
        sha256=hashlib.sha256(packed).hexdigest(),
        md5=hashlib.md5(packed).hexdigest(),
        num_records=3,
        compressed=bool(suffix),
        checkpoint_records=2,
        checkpoints=(0, 8),
        stretches=() if suffix else (sha256(b"0\ta\n1\tb\n"), sha256(b"2\tc")),
    )


@pytest.mark.parametrize(
    ("content", "num_records", "checkpoints"),
    [
        (b"", 0, ()),
        (b"\n", 1, (0,)),
        (b"a", 1, (0,)),
        (b"a\nb\n", 2, (0,)),
        (b"a\nb\nc", 3, (0, 4)),
        (b"a\nb\nc\nd\n", 4, (0, 4)),
        (b"\n\n\n\n\n", 5, (0, 2, 4)),
    ],
)
def test_checkpoints_are_where_every_second_record_begins(
    tmp_path, content, num_records, checkpoints
):
    facts = count_file(write(tmp_path, content), format="msmarco-v1", checkpoint_records=2)
    assert (facts.num_records, facts.checkpoints) == (num_records, checkpoints)
    bounds = [*checkpoints, len(content)]
    pieces = [content[a:b] for a, b in zip(bounds[:-1], bounds[1:], strict=True)]
    assert facts.stretches == tuple(map(sha256, pieces))


def test_checkpoints_beyond_a_chunk_are_exact(tmp_path):
    records = [b"%d\t%s\n" % (row, b"x" * (row * 37 % 900)) for row in range(9000)]  # 4 MB
    facts = count_file(
        write(tmp_path, b"".join(records)), format="msmarco-v1", checkpoint_records=1000
    )
    offsets = [sum(map(len, records[:row])) for row in range(0, 9000, 1000)]
    assert facts.checkpoints == tuple(offsets)


def test_facts_survive_json(tmp_path):
    facts = count_file(write(tmp_path, b"0\ta\n1\tb\n"), format="msmarco-v1", checkpoint_records=1)
    assert from_json(json.loads(json.dumps(to_json(facts)))) == facts


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".zst"])
def test_a_truncated_file_is_refused_when_counted(tmp_path, suffix):
    content = b"".join(b"%d\t%d\n" % (row, row * row) for row in range(20_000))
    path = write(tmp_path, PACK[suffix](content)[:-200], "cut.tsv" + suffix)
    with pytest.raises(InputError, match=r"cut\.tsv.*cut off"):
        count_file(path, format="msmarco-v1")


def test_a_file_is_counted_with_a_checkpoint_every_100_000_records(tmp_path):
    assert facts.CHECKPOINT_RECORDS == 100_000
    path = tmp_path / "x.tsv"
    path.write_bytes(b"\n" * 100_001)
    found = count_file(path, format="msmarco-v1")
    assert (found.checkpoint_records, found.checkpoints) == (100_000, (0, 100_000))


def test_an_empty_range_reads_nothing_even_of_a_file_that_is_gone(tmp_path):
    path = tmp_path / "x.tsv"
    path.write_bytes(b"1\ta\n2\t \n")
    counted = count_file(path, format="msmarco-v1")
    tally = Tally()
    given = {"format": "msmarco-v1", "facts": counted, "tally": tally}
    assert list(read_records(path, start=1, stop=2, **given)) == [("2", " ")]
    assert tally == Tally(num_replaced=0, num_blank=1)
    path.unlink()
    assert list(read_records(path, start=2, stop=2, **given)) == []


def test_a_file_that_grew_is_found_by_its_length(tmp_path):
    path = write(tmp_path, b"0\ta\n1\tb\n")
    facts = count_file(path, format="msmarco-v1", checkpoint_records=2)
    check_unchanged(path, facts, 0, 2)
    write(tmp_path, b"0\ta\n1\tb\n2\tc\n")
    with pytest.raises(CorruptError, match="8 bytes expected, 12 found"):
        check_unchanged(path, facts, 0, 2)
    path.unlink()
    with pytest.raises(CorruptError, match="not the file that was counted: it is gone"):
        check_unchanged(path, facts, 0, 2)
