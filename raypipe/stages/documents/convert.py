"""The stage that reads a collection's files for documents: their texts, or passages' homes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

from raypipe import schema
from raypipe.data.facts import FileFacts
from raypipe.data.formats.registry import get_format
from raypipe.data.reading import Errors, read_parsed
from raypipe.stages.stage import Needs, Opened, Site, Sizing
from raypipe.stages.texts.counted_files import CountedFiles, Read
from raypipe.storage.records import Json, Shard
from raypipe.storage.spec import StageSpec

What = Literal["documents", "passages", "homes"]
"""Documents with their texts; passages that the files give; or the document of each passage."""
_COLUMNS = {
    "documents": schema.DOCUMENTS,
    "passages": schema.PASSAGES,
    "homes": schema.HOMES,
}


@dataclass(frozen=True)
class RecordsStage:
    """One row for each record of the files; its row is its position over all files in order."""

    what: What
    files: Sequence[Path]
    facts: Sequence[FileFacts]
    format: str
    fields: Mapping[str, str] | None = None
    """The names of the fields, for the format jsonl."""
    errors: Errors = "strict"
    sources: Mapping[str, str] = field(default_factory=dict)
    needs: Needs = Needs()
    skips_rows: ClassVar[bool] = False

    @property
    def _inputs(self) -> CountedFiles:
        return CountedFiles(self.files, self.facts, self.sources)

    @property
    def spec(self) -> StageSpec:
        """The content's hashes, how it is read, and the written format."""
        fields = dict(self.fields) if self.fields is not None else None
        params: dict[str, Json] = {"format": self.format, "fields": fields, "errors": self.errors}
        params["written"] = "parquet-1"
        return StageSpec(self.what, 1, params, self._inputs.content(), self.what)

    def shards(self, sizing: Sizing) -> list[Shard]:
        """As those of a collection of passages."""
        return self._inputs.shards(sizing)

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """See Stage."""
        return self._inputs.estimated_bytes(num_rows, num_planned)

    def open(self, site: Site) -> Opened:
        """See Stage; schema.DOCUMENTS, PASSAGES or HOMES. Memory holds one row group."""
        return self._inputs.opened(site, _COLUMNS[self.what], self.read())

    def read(self) -> Read:
        """Reads some of the records."""
        kind = get_format(self.format, self.fields)
        parsers = {"documents": kind.document, "passages": kind.parse, "homes": kind.home}
        parse = parsers[self.what]
        assert parse is not None  # a rule of the recipe
        return partial(read_parsed, parse=parse, errors=self.errors)
