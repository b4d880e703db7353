"""The stage that reads a collection's files for documents: their texts, or passages' homes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

from raypipe import schema
from raypipe.data.facts import FileFacts
from raypipe.data.formats.registry import get_format
from raypipe.data.reading import Errors, Tally, read_parsed
from raypipe.stages.stage import Beat, Needs, Opened, Payload, Rows, Site, Sizing
from raypipe.stages.texts.counted_files import CountedFiles, Part
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
        return Opened(partial(self._run, self._parse(), site.scratch))

    def _parse(self) -> Callable[[bytes], tuple[str, ...]]:
        kind = get_format(self.format, self.fields)
        found = {"documents": kind.document, "passages": kind.parse, "homes": kind.home}[self.what]
        assert found is not None  # a rule of the recipe
        return found

    def _run(
        self,
        parse: Callable[[bytes], tuple[str, ...]],
        scratch: Path,
        shard: Shard,
        skip: Rows,
        beat: Beat,
    ) -> Payload:
        def read(path: Path, part: Part, tally: Tally) -> Iterator[tuple[str, ...]]:
            return read_parsed(
                path,
                parse,
                start=part.start,
                stop=part.stop,
                facts=part.facts,
                errors=self.errors,
                tally=tally,
            )

        return self._inputs.payload(scratch, shard, _COLUMNS[self.what], read, beat)
