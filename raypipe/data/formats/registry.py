"""Collection formats by name: which files belong, and how a record becomes (id, text)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from raypipe.data.files.split import LINES, Split
from raypipe.data.formats import beir, irds, msmarco, pyserini, trec_car
from raypipe.data.formats.car import paragraphs
from raypipe.data.formats.car.split import PARAGRAPHS
from raypipe.errors import InputError

Passage = tuple[str, str]
"""(passage_id, text)."""


@dataclass(frozen=True, kw_only=True)
class Format:
    """A format; it has either `parse` (files of records) or `stream` (anything else)."""

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


FORMATS = {
    format.name: format
    for format in (
        Format(name="msmarco-v1", files=msmarco.v1_files, parse=msmarco.parse_v1),
        Format(name="msmarco-v2", files=msmarco.v2_files, parse=msmarco.parse_v2),
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


def get_format(name: str) -> Format:
    """The format of that name.

    Raises:
        InputError: no such format; the message suggests the nearest name.
    """
    if name in FORMATS:
        return FORMATS[name]
    nearest = get_close_matches(name, FORMATS, n=1)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    raise InputError(f"format {name!r} is not one of {', '.join(FORMATS)}{hint}")
