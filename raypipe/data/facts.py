"""Facts of an input file from one pass over it: size, hashes, records, offsets for seeking.

Later it is checked that the file still has the bytes that were counted. Of official files, most of
them MS MARCO's, the number of records is known by their names.

Source: the tables of microsoft/MSMARCO-Passage-Ranking, MSMARCO-Document-Ranking and the TREC
Deep Learning 2021 guidelines.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from raypipe.data.files import plain_name
from raypipe.data.formats.registry import get_format
from raypipe.data.records import Counted
from raypipe.errors import LEAVE_INPUTS, CorruptError
from raypipe.storage.compression import is_compressed, open_binary
from raypipe.storage.records import hash_file

CHECKPOINT_RECORDS = 100_000


@dataclass(frozen=True, kw_only=True)
class FileFacts:
    """The facts of an input file when it was counted."""

    name: str
    """File name without its folder, or an ir_datasets id as given."""
    num_bytes: int
    sha256: str
    md5: str
    """Hash of the raw, compressed bytes; of the streamed records if the source has no lines."""
    num_records: int
    compressed: bool
    checkpoint_records: int
    checkpoints: tuple[int, ...]
    """Byte offsets in the uncompressed text of records 0, checkpoint_records, 2 of them, ..."""
    stretches: tuple[str, ...]
    """SHA-256 of the text from each checkpoint to the next; empty for a compressed file."""


def to_json(facts: FileFacts) -> dict[str, Any]:
    """The facts as a plain dict that JSON preserves."""
    lists = {"checkpoints": list(facts.checkpoints), "stretches": list(facts.stretches)}
    return asdict(facts) | lists


def from_json(fields: Mapping[str, Any]) -> FileFacts:
    """The facts that `to_json` wrote."""
    tuples = {name: tuple(fields[name]) for name in ("checkpoints", "stretches")}
    return FileFacts(**{**fields, **tuples})


def count_file(
    path: Path,
    *,
    format: str,
    fields: Mapping[str, str] | None = None,
    checkpoint_records: int = CHECKPOINT_RECORDS,
) -> FileFacts:
    """The facts of one file, from one pass over its raw bytes in bounded memory.

    Records are counted, not parsed; `read_records` finds their problems. Only the bytes of CBOR are
    checked here.

    Raises:
        InputError: no such file or format, truncated or damaged data.
    """
    kind = get_format(format, fields)
    sha256, md5 = hashlib.sha256(), hashlib.md5(usedforsecurity=False)
    num_bytes = 0

    def observe(block: memoryview) -> None:
        nonlocal num_bytes
        num_bytes += len(block)
        sha256.update(block)
        md5.update(block)

    if kind.stream is not None:
        name, compressed = str(path), False
        counted = Counted(_count_streamed(kind.stream(path, 0, None), observe), (), ())
    else:
        with open_binary(path, observe=observe) as stream:
            counted = kind.split.count(stream, str(path), checkpoint_records)
        name, compressed = path.name, is_compressed(path)
    return FileFacts(
        name=name,
        num_bytes=num_bytes,
        sha256=sha256.hexdigest(),
        md5=md5.hexdigest(),
        num_records=counted.num_records,
        compressed=compressed,
        checkpoint_records=checkpoint_records,
        checkpoints=counted.checkpoints,
        stretches=() if compressed else counted.stretches,
    )


def _count_streamed(
    passages: Iterator[tuple[str, str]], observe: Callable[[memoryview], None]
) -> int:
    """The number of passages of a source without lines, whose bytes are these records."""
    num_records = 0
    for passage in passages:
        fields = [value.encode("utf-8", "surrogatepass") for value in passage]
        # Lengths first, so that no two lists of records have the same bytes.
        parts = (len(field).to_bytes(8, "little") + field for field in fields)
        observe(memoryview(b"".join(parts)))
        num_records += 1
    return num_records


BLOCK_BYTES = 1 << 20


def check_unchanged(path: Path, facts: FileFacts, start: int, stop: int) -> None:
    """Returns nothing if the text of records [start, stop) has the bytes that were counted.

    Call it after reading the records, so that a change before or during the reading is found.

    Raises:
        CorruptError: the bytes differ.
    """
    try:
        num_bytes = path.stat().st_size
    except FileNotFoundError as error:
        raise changed(path, "it is gone") from error
    if num_bytes != facts.num_bytes:
        raise changed(path, f"{facts.num_bytes:,} bytes expected, {num_bytes:,} found")
    if facts.compressed:
        actual = hash_file(path)
        if actual != facts.sha256:
            raise changed(path, f"SHA-256 {facts.sha256} expected, {actual} found")
        return
    every = facts.checkpoint_records
    bounds = [*facts.checkpoints, facts.num_bytes]
    with path.open("rb") as stream:
        for number in range(start // every, -(-stop // every)):
            first, last = bounds[number : number + 2]
            stream.seek(first)
            if _sha256(stream, last - first) != facts.stretches[number]:
                raise changed(path, f"other bytes from byte {first:,} on")


def changed(path: Path, difference: str) -> CorruptError:
    """The error for a file that is no longer the one that was counted."""
    return CorruptError(f"{path}: not the file that was counted: {difference}. {LEAVE_INPUTS}")


def _sha256(stream: BinaryIO, num_bytes: int) -> str:
    """SHA-256 of the next bytes; of fewer if the stream ends."""
    sha256 = hashlib.sha256()
    while num_bytes and (block := stream.read(min(BLOCK_BYTES, num_bytes))):
        sha256.update(block)
        num_bytes -= len(block)
    return sha256.hexdigest()


MSMARCO_V1_PASSAGES = 8_841_823

NUM_RECORDS = {
    "collection.tsv": MSMARCO_V1_PASSAGES,
    "queries.train.tsv": 808_731,
    "queries.dev.tsv": 101_093,
    "queries.eval.tsv": 101_092,
    "queries.dev.small.tsv": 6_980,
    "queries.eval.small.tsv": 6_837,
    "qrels.dev.small.tsv": 7_437,
    "qrels.train.tsv": 532_761,
    "top1000.dev": 6_668_967,
    "top1000.dev.tsv": 6_668_967,
    "top1000.eval": 6_515_736,
    "top1000.eval.tsv": 6_515_736,
    "triples.train.small.tsv": 39_780_811,
    "qidpidtriples.train.full.2.tsv": 397_768_673,
    "msmarco-docs.tsv": 3_213_835,
    "passv2_train_queries.tsv": 277_144,
    "passv2_dev_queries.tsv": 3_903,
    "passv2_dev2_queries.tsv": 4_281,
    "docv2_train_queries.tsv": 322_196,
    "docv2_dev_queries.tsv": 4_552,
    "docv2_dev2_queries.tsv": 5_000,
    "paragraphcorpus.cbor": 29_678_367,
    "dedup.articles-paragraphs.cbor": 29_794_697,
}
"""Numbers of records by file name without .gz, .bz2 or .zst. TREC CAR's, v1.5 and v2.0, are
ir_datasets' counts; Anserini indexes 29,794,689 of the latter."""

ARCHIVE_MD5 = {
    "collectionandqueries.tar.gz": "31644046b18952c1386cd4564ba2ae69",
    "triples.train.small.tar.gz": "c13bf99ff23ca691105ad12eab837f84",
    "top1000.dev.tar.gz": "8c140662bdf123a98fbfe3bb174c5831",
}

_COLLECTIONS = {
    "MS MARCO v2 passage": (r"msmarco_passage_\d+", 70, 138_364_198),
    "MS MARCO v2 document": (r"msmarco_doc_\d+", 60, 11_959_635),
}


def check_known(facts: FileFacts) -> list[str]:
    """A warning for a file with an official name but another number of records or MD5."""
    warnings = []
    expected = NUM_RECORDS.get(plain_name(Path(facts.name)))
    if expected is not None and facts.num_records != expected:
        whose = "TREC CAR" if ".cbor" in facts.name else "MS MARCO"
        warnings.append(
            f"{facts.name}: {facts.num_records:,} records; the official {whose} file of this"
            f" name has {expected:,}: a subset, an incomplete copy or another collection"
        )
    md5 = ARCHIVE_MD5.get(facts.name)
    if md5 is not None and facts.md5 != md5:
        warnings.append(f"{facts.name}: MD5 {facts.md5}; the official archive has {md5}")
    return warnings


def check_known_collection(files: Sequence[FileFacts]) -> list[str]:
    """The warnings of `check_known` for each file, and for collections of many files as a whole."""
    warnings = [warning for facts in files for warning in check_known(facts)]
    for title, (pattern, num_files, num_records) in _COLLECTIONS.items():
        parts = [facts for facts in files if re.match(rf"{pattern}(\.|$)", facts.name)]
        counts = len(parts), sum(part.num_records for part in parts)
        if parts and counts != (num_files, num_records):
            warnings.append(
                f"{title}: {counts[0]} files with {counts[1]:,} records; the official collection"
                f" has {num_files} with {num_records:,}: a subset or an incomplete copy"
            )
    return warnings


def has_dense_ids(files: Sequence[FileFacts]) -> bool:
    """Whether these are the official MS MARCO v1 passages, whose ids are 0 to n-1 in order."""
    return [(plain_name(Path(f.name)), f.num_records) for f in files] == [
        ("collection.tsv", MSMARCO_V1_PASSAGES)
    ]
