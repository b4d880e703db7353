"""Collection formats by name: which files belong, and how a record becomes a passage.

The names of a collection's files and their first lines say which format it has.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from raypipe import foreign
from raypipe.data.files import find_files, natural_key, plain_name
from raypipe.data.formats import car, irds, json_lines, tables
from raypipe.data.formats.fields import Document, checked_id, document_v1, id_and_text, json_object
from raypipe.data.records import LINES, RecordSplit, lines
from raypipe.errors import InputError, did_you_mean, listed
from raypipe.storage.compression import open_binary
from raypipe.vocabulary import WITH_FIELDS, Ids

EXPECTED = (
    "lines of id TAB text (.tsv), a header such as docno,text (.csv), JSON lines (.jsonl), "
    "Parquet, plain lines (.txt), TREC CAR's paragraphs (.cbor), a BEIR folder or irds:ID"
)
_DOCUMENT_V1 = re.compile(rb"[^\t]+\thttps?://[^\t]*\t[^\t]*\t")
_SUFFIXES = (".tsv", ".csv", ".jsonl", ".json", ".parquet", ".txt")
Passage = tuple[str, str]
"""(passage_id, text)."""


@dataclass(frozen=True, kw_only=True)
class Format:
    """A format of records, with what it reads from one, or of anything else, with `stream`."""

    name: str
    files: Callable[[Sequence[Path]], list[Path]]
    """Inputs as given -> files in reading order. Raises InputError."""
    parse: Callable[[Any], Passage] | None = None
    """One record, a line's bytes unless `split` says otherwise -> a passage. Raises ValueError with
    the cause."""
    split: RecordSplit = LINES
    """How a file becomes records."""
    stream: Callable[[Path, int, int | None], Iterator[Passage]] | None = None
    """Source, start, stop -> its passages [start, stop). Raises InputError."""
    document: Callable[[bytes], Document] | None = None
    """One line -> a document, to be split into passages. Raises ValueError with the cause."""
    home: Callable[[bytes], tuple[str, str]] | None = None
    """One line, a passage -> its document's id and its spans there. Raises ValueError."""


def _files(
    expected: str, *patterns: str, walk: bool = False
) -> Callable[[Sequence[Path]], list[Path]]:
    """Each file named, and of each folder the files of the first pattern that any file fits."""
    return partial(find_files, patterns=patterns, expected=expected, walk=walk)


_JSON_FILES = _files("*.jsonl or *.json", r".*\.jsonl?")
_PARAGRAPH_FILES = _files(
    "dedup.articles-paragraphs.cbor, paragraphcorpus.cbor or *.paragraphs",
    r"paragraphcorpus\.cbor",
    r"dedup\.articles-paragraphs\.cbor",
    r".*paragraphs\.cbor",
    r".*\.paragraphs",
)
FORMATS = {
    format.name: format
    for format in (
        # Source: microsoft/MSMARCO-Passage-Ranking and MSMARCO-Document-Ranking (v1), TREC Deep
        # Learning 2021 (v2: 70 files of passages, 60 of documents).
        Format(
            name="msmarco-v1",
            files=_files(
                "collection.tsv or other *.tsv of id TAB text",
                r"collection\.tsv",
                r"collection.*\.tsv",
                r".*\.tsv",
            ),
            parse=id_and_text,
        ),
        Format(
            name="msmarco-v2",
            files=_files(
                "msmarco_passage_*.gz or *.jsonl with the fields pid and passage",
                r"msmarco_passage_\d+(\.jsonl?)?",
                r".*\.jsonl",
                r".*\.json",
            ),
            parse=partial(json_lines.passage_of, fields={"id": "pid", "body": "passage"}),
            split=json_lines.OBJECTS,
            home=partial(json_lines.home_of, fields={"document": "docid", "spans": "spans"}),
        ),
        Format(
            name="msmarco-doc-v1",
            files=_files(
                "msmarco-docs.tsv or other *.tsv of docid, url, title and body",
                r"msmarco-docs\.tsv",
                r".*\.tsv",
            ),
            document=document_v1,
        ),
        Format(
            name="msmarco-doc-v2",
            files=_files(
                "msmarco_doc_*.gz or *.jsonl with the fields docid, title, headings and body",
                r"msmarco_doc_\d+(\.jsonl?)?",
                r".*\.jsonl",
                r".*\.json",
            ),
            document=partial(
                json_lines.document_of,
                fields={"id": "docid", "title": "title", "headings": "headings", "body": "body"},
            ),
            split=json_lines.OBJECTS,
        ),
        Format(
            name="jsonl", files=_JSON_FILES, parse=json_lines.parse_any, split=json_lines.OBJECTS
        ),
        Format(name="csv", files=tables.csv_files, parse=tables.parse_csv, split=tables.RECORDS),
        Format(
            name="parquet", files=tables.parquet_files, parse=tables.parse_row, split=tables.ROWS
        ),
        Format(name="txt", files=tables.text_files, parse=tables.parse_line, split=tables.NUMBERED),
        Format(
            name="beir",
            files=_files("corpus.jsonl", r"corpus\.jsonl"),
            parse=json_lines.parse_beir,
            split=json_lines.OBJECTS,
        ),
        Format(
            name="pyserini",
            # Source: Anserini's JsonCollection and DocumentCollection, which walk sub-folders.
            files=_files("*.jsonl or *.json with id and contents", r".*\.jsonl?", walk=True),
            parse=json_lines.parse_pyserini,
            split=json_lines.OBJECTS,
        ),
        # Word pieces around links differ between the two.
        Format(
            name="trec-car", files=_PARAGRAPH_FILES, parse=car.with_blanks, split=car.PARAGRAPHS
        ),
        Format(
            name="trec-car-tools",
            files=_PARAGRAPH_FILES,
            parse=car.without_blanks,
            split=car.PARAGRAPHS,
        ),
        Format(name="ir-datasets", files=irds.files, stream=irds.stream),
    )
}


def _rows_of_files(form: Format, text_of: Callable[[Any], str]) -> Format:
    """The format with ids FILE:NUMBER: the file's name, and the record's number in it, from 1."""
    split = form.split

    def records(stream: Any, *, name: str, at: int, first: int, skip: int) -> Iterator[Any]:
        unnamed = split.records(stream, name=name, at=at, first=first, skip=skip)
        for number, record in enumerate(unnamed, first + skip + 1):
            yield f"{Path(name).name}:{number}", record

    def files(inputs: Sequence[Path]) -> list[Path]:
        paths = form.files(inputs)
        places, problems = dict[str, Path](), []
        for path in paths:
            try:
                checked_id(path.name, field="file name")
            except ValueError as error:
                problems.append(f"{path}: it is part of ids: {error}; rename the file")
            if (other := places.setdefault(path.name, path)) != path:
                problems.append(
                    f"{path}: its rows would have the ids of those of {other}; rename one of them"
                )
        if problems:
            raise InputError(problems)
        return paths

    return Format(
        name=form.name,
        files=files,
        parse=lambda record: (record[0], text_of(record[1])),
        split=RecordSplit(
            place=lambda number, record: split.place(number, record[1]),
            count=split.count,
            records=records,
            replaced=lambda record: (record[0], split.replaced(record[1])),
        ),
    )


_FILE_ROWS = {
    "jsonl": _rows_of_files(FORMATS["jsonl"], json_lines.parse_text),
    "parquet": _rows_of_files(
        Format(
            name="parquet",
            files=partial(tables.parquet_files, names=tables.WITHOUT_IDS),
            split=tables.row_split(tables.WITHOUT_IDS),
        ),
        tables.text_of_row,
    ),
}


def get_format(
    name: str, fields: Mapping[str, str] | None = None, ids: Ids | None = None
) -> Format:
    """The format of that name; one of `WITH_FIELDS` with the fields that it reads.

    `ids` is `file-row` for files of `jsonl` or `parquet` whose records are named by their places.

    Raises:
        InputError: no such format; the message suggests the nearest name.
    """
    if ids == "file-row":
        return _FILE_ROWS[name]
    if fields is not None and name in WITH_FIELDS:
        return _with_fields(name, fields)
    if name in FORMATS:
        return FORMATS[name]
    hint = did_you_mean(name, FORMATS).removesuffix(";")
    raise InputError(f"format {name!r} is not one of {listed(FORMATS)}{hint}")


def _with_fields(name: str, fields: Mapping[str, str]) -> Format:
    if name == "ir-datasets":
        return Format(name=name, files=irds.files, stream=partial(irds.stream, fields=fields))
    if name == "jsonl":
        return Format(
            name=name,
            files=_JSON_FILES,
            split=json_lines.OBJECTS,
            parse=partial(json_lines.passage_of, fields=fields),
            document=partial(json_lines.document_of, fields=fields),
            home=partial(json_lines.home_of, fields=fields) if "document" in fields else None,
        )
    names = tables.names_in(fields)
    if name == "csv":
        return Format(
            name=name,
            files=partial(tables.csv_files, names=names),
            split=tables.csv_split(names),
            parse=partial(tables.parse_csv, names=names),
        )
    return Format(
        name=name,
        files=partial(tables.parquet_files, names=names),
        split=tables.row_split(names),
        parse=partial(tables.parse_row, names=names),
    )


def format_of(path: Path, *, documents: bool = False) -> str:
    """The format's name, of a file or of a folder by its first file with a known ending.

    MS MARCO's documents are documents only if those are wanted: else each is one passage.

    Raises:
        InputError: no such file, or no format of passages; the message says what is expected.
    """
    if not path.exists():
        raise InputError(f"{path}: no such collection")
    if path.is_dir():
        inside = sorted((p for p in path.iterdir() if p.is_file()), key=natural_key)
        if any(plain_name(file) == "corpus.jsonl" for file in inside):
            return "beir"
        if (path / "dataset_info.json").exists():  # of Hugging Face's `save_to_disk`
            for file in path.glob("*.arrow"):
                return _of_file(file, documents)
        known = [file for ending in _SUFFIXES for file in inside if _ending(file) == ending]
        try:
            known = known or FORMATS["pyserini"].files([path])
        except InputError:
            files = (file for file in path.rglob("*") if file.is_file())
            below = next((file.parent for file in files if _ending(file) in _SUFFIXES), None)
            hint = f"; {below} has such files: name the folder, or each of several" if below else ""
            raise InputError(f"{path}: its format is unknown; expected {EXPECTED}{hint}") from None
        path = known[0]
    return _of_file(path, documents)


def _of_file(path: Path, documents: bool) -> str:
    with open_binary(path) as stream:
        if stream.peek(4)[:4] == b"PAR1":  # type: ignore[attr-defined]
            return "parquet"
        first = next(lines(stream, name=str(path)), b"")
    ending = _ending(path)
    if ending not in (".tsv", ".csv", ".jsonl", ".json", ".txt") and not _is_text(first):
        if ending in (".cbor", ".paragraphs"):
            return "trec-car"
        raise _unknown(path, first)
    if ending in (".jsonl", ".json") or (first.startswith(b"{") and ending != ".tsv"):
        with open_binary(path) as stream:
            objects = json_lines.OBJECTS.records(stream, name=str(path), at=0, first=0, skip=0)
            return _of_json(next(objects, b'{"contents": ""}'), documents)
    header = foreign.header_of(first, foreign.PASSAGES, "passage_id", "text")
    if header is not None and header.separator != " ":
        return "csv"
    if documents and ending != ".csv" and _DOCUMENT_V1.match(first):
        return "msmarco-doc-v1"
    if ending == ".tsv" or (ending != ".csv" and b"\t" in first):
        return "msmarco-v1"
    if ending == ".txt":
        return "txt"
    raise _unknown(path, first)


def _is_text(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _unknown(path: Path, first: bytes) -> InputError:
    shown = repr(first[:60].decode(errors="replace"))
    return InputError(
        f"{path}: its format is unknown; expected {EXPECTED}; its first line is {shown}; "
        "`raypipe prepare --format` reads others"
    )


def _of_json(line: bytes, documents: bool) -> str:
    try:
        fields = json_object(line)
    except ValueError:
        return "jsonl"
    if "contents" in fields:
        return "pyserini"
    if {"pid", "passage"} <= fields.keys():
        return "msmarco-v2"
    if documents and {"docid", "title", "headings", "body"} <= fields.keys():
        return "msmarco-doc-v2"
    return "beir" if {"_id", "text"} <= fields.keys() else "jsonl"


def _ending(path: Path) -> str:
    return Path(plain_name(path)).suffix.lower()
