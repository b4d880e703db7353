"""The stages that read a collection's files for documents: the texts, or the passages' homes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from raypipe import schema
from raypipe.data.facts import FileFacts
from raypipe.data.formats.registry import get_format
from raypipe.data.reading import Errors, Tally, read_parsed
from raypipe.stages.stage import Beat, Needs, Opened, Payload, Rows, Site, Sizing
from raypipe.stages.texts.counted_files import CountedFiles, Part
from raypipe.storage.records import Json, Shard
from raypipe.storage.spec import StageSpec


@dataclass(frozen=True)
class _ReadStage:
    files: Sequence[Path]
    facts: Sequence[FileFacts]
    format: str
    fields: Mapping[str, str] | None = None
    """The names of the fields, for the format jsonl."""
    errors: Errors = "strict"
    sources: Mapping[str, str] = field(default_factory=dict)
    needs: Needs = Needs()
    skips_rows: ClassVar[bool] = False
    stage: ClassVar[str]
    columns: ClassVar[pa.Schema]

    @property
    def _inputs(self) -> CountedFiles:
        return CountedFiles(self.files, self.facts, self.sources)

    def _parse(self) -> Callable[[bytes], tuple[str, ...]]:
        raise NotImplementedError

    @property
    def spec(self) -> StageSpec:
        """The content's hashes, how it is read, and the written format."""
        fields = dict(self.fields) if self.fields is not None else None
        params: dict[str, Json] = {"format": self.format, "fields": fields, "errors": self.errors}
        params["written"] = "parquet-1"
        return StageSpec(self.stage, 1, params, self._inputs.content(), self.stage)

    def shards(self, sizing: Sizing) -> list[Shard]:
        """As those of a collection of passages."""
        return self._inputs.shards(sizing)

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """See Stage."""
        return self._inputs.estimated_bytes(num_rows, num_planned)

    def open(self, site: Site) -> Opened:
        """See Stage; one row for each record of the files."""
        return Opened(partial(self._run, site.scratch))

    def _run(self, scratch: Path, shard: Shard, skip: Rows, beat: Beat) -> Payload:
        def read(path: Path, part: Part, tally: Tally) -> Iterator[tuple[str, ...]]:
            return read_parsed(
                path,
                self._parse(),
                start=part.start,
                stop=part.stop,
                facts=part.facts,
                errors=self.errors,
                tally=tally,
            )

        return self._inputs.payload(scratch, shard, self.columns, read, beat)


class DocumentsStage(_ReadStage):
    """Documents (schema.DOCUMENTS); a document's row is its position over all files in order."""

    stage: ClassVar[str] = "documents"
    columns: ClassVar[pa.Schema] = schema.DOCUMENTS

    def _parse(self) -> Callable[[bytes], tuple[str, ...]]:
        parse = get_format(self.format, self.fields).document
        assert parse is not None  # a rule of the recipe
        return parse


class BodiesStage(_ReadStage):
    """Passages of JSON lines with named fields, for a collection whose passages are given."""

    stage: ClassVar[str] = "passages"
    columns: ClassVar[pa.Schema] = schema.PASSAGES

    def _parse(self) -> Callable[[bytes], tuple[str, ...]]:
        parse = get_format(self.format, self.fields).parse
        assert parse is not None
        return parse


class HomesStage(_ReadStage):
    """The document of each passage, as the collection's files say (schema.HOMES)."""

    stage: ClassVar[str] = "homes"
    columns: ClassVar[pa.Schema] = schema.HOMES

    def _parse(self) -> Callable[[bytes], tuple[str, ...]]:
        parse = get_format(self.format, self.fields).home
        assert parse is not None
        return parse
