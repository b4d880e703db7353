"""Input files that were counted, whose records become the rows of a table."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from raypipe.data.facts import FileFacts
from raypipe.data.reading import Errors, Tally
from raypipe.stages.expected import Expected
from raypipe.stages.stage import (
    Beat,
    Expectations,
    Opened,
    Payload,
    Rows,
    Site,
    Sizing,
    Stage,
    ranges,
)
from raypipe.storage.payloads import write_table
from raypipe.storage.records import Shard, canonical, digest

BATCH_RECORDS = 1024
BATCH_CHARACTERS = 1 << 24
UNPACKED = 5
"""Approximate bytes of text per byte of a compressed file."""

Records = Iterator[tuple[str, ...]]


ReadRecords = Callable[..., Records]
"""(path, start=, stop=, facts=, tally=) -> records [start, stop) of a file on this node, one text
for each column; adds to `tally`. See `data.reading.read_parsed`."""


@dataclass(frozen=True)
class CountedFiles(Stage):
    """A stage over the files in order; a record's row is its position over all of them.

    Each kind adds its spec, `columns` and `read`.
    """

    files: Sequence[Path]
    facts: Sequence[FileFacts]
    format: str
    errors: Errors = "strict"
    sources: Mapping[str, str] = field(default_factory=dict)
    """URIs of files that were fetched, by path."""

    @property
    @abstractmethod
    def columns(self) -> pa.Schema:
        """The schema of the table."""

    @abstractmethod
    def read(self) -> ReadRecords:
        """Reads some of the records."""

    def content(self) -> dict[str, str]:
        """The input of a spec: one digest, by position; names and the number of files are not."""
        return {"content:files": digest(canonical([facts.sha256 for facts in self.facts]))}

    def shards(self, sizing: Sizing) -> list[Shard]:
        """Ranges of records of one file; a compressed file must be read whole, so is one shard."""
        shards: list[Shard] = []
        first = 0
        for facts in self.facts:
            size = facts.num_records if facts.compressed else sizing.shard_rows
            for part in ranges(facts.num_records, max(1, size)):
                if part.num_rows:
                    shards.append(Shard(len(shards), first + part.start, first + part.stop))
            first += facts.num_records
        return shards or [Shard(0, 0, 0)]

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """The share of the files' text that `num_rows` of all planned rows have."""
        whole = sum(f.num_bytes * (UNPACKED if f.compressed else 1) for f in self.facts)
        return whole * num_rows // max(1, num_planned)

    def expected(self, expectations: Expectations) -> Expected:
        """An estimate: later stages read a sample of the records."""
        sample = expectations.sample_files(self.files, self.facts, self.read())
        expected = super().expected(expectations)
        return replace(expected, seconds=sample.cpu_seconds, sample=sample)

    def open(self, site: Site) -> Opened:
        """Open it: a shard's records as a table. Memory holds one row group.

        Its facts are the numbers of rows, replaced and blank ones.
        """
        return Opened(partial(self._run, site.scratch, self.read()))

    def _run(
        self, scratch: Path, read: ReadRecords, shard: Shard, skip: Rows, beat: Beat
    ) -> Payload:
        path, tally = scratch / f"{shard.index}.parquet", Tally()
        records = self._records(scratch, shard, read, tally)
        num_rows = write_table(path, self.columns, batched(records, self.columns, beat))
        facts = {"rows": num_rows, "replaced": tally.num_replaced, "blank": tally.num_blank}
        return Payload(path, facts)

    def _records(
        self, scratch: Path, shard: Shard, read: ReadRecords, tally: Tally
    ) -> Iterator[tuple[str, ...]]:
        from raypipe.storage.copies import on_this_node

        first = 0
        for file, facts in zip(self.files, self.facts, strict=True):
            start = max(shard.start - first, 0)
            stop = min(shard.stop - first, facts.num_records)
            first += facts.num_records
            if start < stop:
                path = on_this_node(file, self.sources, scratch)
                yield from read(path, start=start, stop=stop, facts=facts, tally=tally)


def batched(
    records: Iterator[tuple[str, ...]], columns: pa.Schema, beat: Beat
) -> Iterator[pa.RecordBatch]:
    """The records, one text for each column, in batches of bounded size; a beat before each."""
    held: list[tuple[str, ...]] = []
    num_characters = 0
    for record in records:
        held.append(record)
        num_characters += len(record[-1])
        if len(held) >= BATCH_RECORDS or num_characters >= BATCH_CHARACTERS:
            beat(())
            yield pa.record_batch([*zip(*held, strict=True)], schema=columns)
            held, num_characters = [], 0
    if held:
        yield pa.record_batch([*zip(*held, strict=True)], schema=columns)
