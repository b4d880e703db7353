"""Collection formats by name: which files belong, and how a record becomes a passage."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

from raypipe.data.files.split import LINES, Split
from raypipe.data.formats import (
    beir,
    documents,
    irds,
    msmarco,
    numbered,
    objects,
    parquet,
    pyserini,
    separated,
    trec_car,
)
from raypipe.data.formats.car import paragraphs
from raypipe.data.formats.car.split import PARAGRAPHS
from raypipe.data.formats.documents import Document
from raypipe.errors import InputError

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
    split: Split = LINES
    """How a file becomes records."""
    stream: Callable[[Path, int, int | None], Iterator[Passage]] | None = None
    """Source, start, stop -> its passages [start, stop). Raises InputError."""
    document: Callable[[bytes], Document] | None = None
    """One line -> a document, to be split into passages. Raises ValueError with the cause."""
    home: Callable[[bytes], tuple[str, str]] | None = None
    """One line, a passage -> its document's id and its spans there. Raises ValueError."""


FORMATS = {
    format.name: format
    for format in (
        Format(name="msmarco-v1", files=msmarco.v1_files, parse=msmarco.parse_v1),
        Format(
            name="msmarco-v2",
            files=msmarco.v2_files,
            parse=msmarco.parse_v2,
            home=partial(documents.home_of, fields={"document": "docid", "spans": "spans"}),
        ),
        Format(name="msmarco-doc-v1", files=documents.v1_files, document=documents.document_v1),
        Format(
            name="msmarco-doc-v2",
            files=documents.v2_files,
            document=partial(documents.document_of, fields=documents.V2_FIELDS),
        ),
        Format(name="jsonl", files=documents.json_files, parse=objects.parse),
        Format(name="csv", files=separated.files, parse=separated.parse, split=separated.RECORDS),
        Format(name="parquet", files=parquet.files, parse=parquet.parse, split=parquet.ROWS),
        Format(name="txt", files=numbered.files, parse=numbered.parse, split=numbered.NUMBERED),
        Format(name="beir", files=beir.files, parse=beir.parse),
        Format(name="pyserini", files=pyserini.files, parse=pyserini.parse),
        Format(
            name="trec-car",
            files=trec_car.files,
            parse=paragraphs.with_blanks,
            split=PARAGRAPHS,
        ),
        Format(
            name="trec-car-tools",
            files=trec_car.files,
            parse=paragraphs.without_blanks,
            split=PARAGRAPHS,
        ),
        Format(name="ir-datasets", files=irds.files, stream=irds.stream),
    )
}


def get_format(name: str, fields: Mapping[str, str] | None = None) -> Format:
    """The format of that name; of `jsonl`, with the fields that it reads.

    Raises:
        InputError: no such format; the message suggests the nearest name.
    """
    if fields is not None and name == "jsonl":
        return Format(
            name=name,
            files=documents.json_files,
            parse=partial(documents.passage_of, fields=fields),
            document=partial(documents.document_of, fields=fields),
            home=partial(documents.home_of, fields=fields) if "document" in fields else None,
        )
    if name in FORMATS:
        return FORMATS[name]
    nearest = get_close_matches(name, FORMATS, n=1)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    raise InputError(f"format {name!r} is not one of {', '.join(FORMATS)}{hint}")
