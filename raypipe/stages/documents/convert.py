"""The stage that reads a collection's files for documents: their texts, or passages' homes."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from raypipe import schema
from raypipe.data.formats.fields import document_before
from raypipe.data.formats.registry import get_format
from raypipe.data.reading import read_parsed, read_records
from raypipe.data.records import Problems
from raypipe.stages.prepare import CountedFiles, ReadRecords, Records
from raypipe.storage.records import Json
from raypipe.storage.spec import StageSpec

What = Literal["documents", "passages", "homes"]
"""Documents with their texts; passages that the files give; or the document of each passage."""
_COLUMNS = {
    "documents": schema.DOCUMENTS,
    "passages": schema.PASSAGES,
    "homes": schema.HOMES,
}


@dataclass(frozen=True)
class RecordsStage(CountedFiles):
    """One row for each record of the files."""

    _: KW_ONLY
    what: What
    fields: Mapping[str, str] | None = None
    """The names of the fields, of a format that takes them."""
    delimiter: str | None = None
    """In a passage's id, what ends that of its document; None where records name the document."""

    @property
    def columns(self) -> pa.Schema:
        """schema.DOCUMENTS, PASSAGES or HOMES."""
        return _COLUMNS[self.what]

    @property
    def spec(self) -> StageSpec:
        """The content's hashes, how it is read, and the written format."""
        fields = dict(self.fields) if self.fields is not None else None
        params: dict[str, Json] = {"format": self.format, "fields": fields, "errors": self.errors}
        params["written"] = "parquet-1"
        if self.delimiter is not None and self.what == "homes":
            params["delimiter"] = self.delimiter
        return StageSpec(self.what, 1, params, self.content(), self.what)

    def read(self) -> ReadRecords:
        """Reads some of the records."""
        kind = get_format(self.format, self.fields)
        if self.delimiter is not None and self.what == "homes":
            passages = replace(self, what="passages").read()
            return partial(_homes_by_id, passages, self.delimiter)
        if kind.stream is not None:
            return partial(read_records, format=self.format, fields=self.fields, errors=self.errors)
        parsers = {"documents": kind.document, "passages": kind.parse, "homes": kind.home}
        parse = parsers[self.what]
        assert parse is not None  # a rule of the recipe
        return partial(read_parsed, parse=parse, split=kind.split, errors=self.errors)


def _homes_by_id(passages: ReadRecords, delimiter: str, path: Path, **span: Any) -> Records:
    """The document of each passage of a file, by its id, and no spans.

    Raises:
        InputError: ids in which the delimiter is not there once.
    """
    problems = Problems()
    for passage_id, _ in passages(path, **span):
        try:
            yield document_before(delimiter, passage_id), ""
        except ValueError as error:
            problems.add(f"{path}: {error}")
    problems.raise_if_any()
