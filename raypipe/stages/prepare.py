"""Files that people bring become stores: counts of a collection's files, its passages, queries."""

import json
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from raypipe import schema
from raypipe.data.facts import FileFacts, changed, count_file, from_json, to_json
from raypipe.data.queries import read_queries
from raypipe.data.reading import Errors, Tally, read_records
from raypipe.errors import LEAVE_INPUTS, InputError
from raypipe.stages.stage import (
    Beat,
    Expectations,
    Expected,
    Opened,
    Payload,
    Rows,
    Site,
    Sizing,
    Stage,
    ranges,
)
from raypipe.storage.payloads import write_table
from raypipe.storage.records import Json, Shard, canonical, digest, hash_file
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored
from raypipe.vocabulary import Ids

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
    batch: list[tuple[str, ...]] = []
    num_characters = 0
    for record in records:
        batch.append(record)
        num_characters += len(record[-1])
        if len(batch) >= BATCH_RECORDS or num_characters >= BATCH_CHARACTERS:
            beat(())
            yield pa.record_batch([*zip(*batch, strict=True)], schema=columns)
            batch, num_characters = [], 0
    if batch:
        yield pa.record_batch([*zip(*batch, strict=True)], schema=columns)


@dataclass
class CountStage(Stage):
    """One pass over each input file for hashes, records and offsets. One shard per file."""

    files: Sequence[Path]
    format: str
    sources: Mapping[str, str] = field(default_factory=dict)
    """URIs of files that were fetched, by path."""
    fields: Mapping[str, str] | None = None
    """The names of the fields, if they decide how records are counted."""

    def __post_init__(self) -> None:
        """Look at the files once, in the driver: copies on a node may have other times."""
        self._stamps = _stamps(self.files, self.sources)

    @property
    def spec(self) -> StageSpec:
        """Sizes and times in place of the content, whose hash this stage computes."""
        params: dict[str, Json] = {"format": self.format}
        if self.fields is not None:
            params["fields"] = dict(self.fields)
        return StageSpec("count", 2, params, self._stamps, "facts")

    def shards(self, sizing: Sizing) -> list[Shard]:
        """One shard per file, in reading order."""
        return ranges(len(self.files), 1)

    def weights_of(self, shards: Sequence[Shard]) -> list[float]:
        """The work of each shard: the bytes of its files."""
        files = (self.files[shard.start : shard.stop] for shard in shards)
        return [float(sum(f.stat().st_size for f in of if f.exists())) for of in files]

    def open(self, site: Site) -> Opened:
        """Open it: facts of each file as JSON."""
        return Opened(partial(self._run, site.scratch))

    def _run(self, scratch: Path, shard: Shard, skip: Rows, beat: Beat) -> Payload:
        from raypipe.storage.copies import on_this_node

        beat(range(shard.start, shard.stop))
        file = on_this_node(self.files[shard.start], self.sources, scratch)
        before = _stamps([file])
        facts = count_file(file, format=self.format, fields=self.fields)
        if _stamps([file]) != before:
            raise changed(file, "it was written while it was counted")
        path = scratch / f"{shard.index}.json"
        path.write_text(json.dumps(to_json(facts), sort_keys=True))
        return Payload(path, {"rows": 1})


def _stamps(files: Sequence[Path], sources: Mapping[str, str] = {}) -> dict[str, str]:
    stamps = {}
    for number, file in enumerate(files):
        key = f"content:{number:05d}"
        if str(file) in sources:  # its folder is named by what the bucket says of the object
            stamps[key] = f"{file.parent.name}/{file.name}"
        elif file.exists():
            stat = file.stat()
            # The times of change too: tar, rsync and cp -p can give another file the same size and
            # date.
            times = f"{stat.st_mtime_ns}-{stat.st_ctime_ns}"
            stamps[key] = f"{stat.st_size}-{times}-{stat.st_ino}"
        else:  # an ir_datasets id: the version of its package decides the content
            stamps[key] = str(file)
    return stamps


def counted(stored: Stored) -> list[FileFacts]:
    """The facts from CountStage, in file order."""
    paths = (stored.path(record) for record in stored.manifest.records)
    return [from_json(json.loads(path.read_text())) for path in paths]


@dataclass(frozen=True)
class ConvertStage(CountedFiles):
    """Input files as Parquet passages."""

    ids: Ids | None = None
    """Whether ids are made of the files' names; see `get_format`."""

    @property
    def columns(self) -> pa.Schema:
        """schema.PASSAGES."""
        return schema.PASSAGES

    @property
    def spec(self) -> StageSpec:
        """The content's hashes, how it is read, and the written format."""
        params: dict[str, Json] = {"format": self.format, "errors": self.errors}
        params["passages"] = "parquet-1"
        content = self.content()
        if self.ids is not None:
            params["ids"] = self.ids
            names = [facts.name for facts in self.facts]
            content["content:names"] = digest(canonical(names))
        return StageSpec("prepare", 1, params, content, "passages")

    def read(self) -> ReadRecords:
        """Reads some of the records."""
        return partial(read_records, format=self.format, errors=self.errors, ids=self.ids)


@dataclass(frozen=True)
class QueriesStage(Stage):
    """Queries in file order; with `only`, those whose id is in it."""

    file: Path
    only: frozenset[str] | None = None
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def spec(self) -> StageSpec:
        """The file's hash, and which of its queries are kept."""
        chosen = None if self.only is None else digest(canonical(sorted(self.only)))
        content = {"content:queries": hash_file(self.file)}
        return StageSpec("queries", 2, {"only": chosen}, content, "queries")

    def shards(self, sizing: Sizing) -> list[Shard]:
        """One shard: query sets are small compared with collections."""
        return [Shard(0, 0, len(self._read(self.file)))]

    def open(self, site: Site) -> Opened:
        """Open it: the query set as one table of schema.QUERIES."""
        return Opened(partial(self._run, site.scratch))

    def _run(self, scratch: Path, shard: Shard, skip: Rows, beat: Beat) -> Payload:
        from raypipe.storage.copies import on_this_node

        queries = self._read(on_this_node(self.file, self.sources, scratch))
        if len(queries) != shard.num_rows:
            raise InputError(
                f"{self.file}: expected {shard.num_rows} queries, as planned, found "
                f"{len(queries)}. {LEAVE_INPUTS}"
            )
        path = scratch / "queries.parquet"
        columns = [[query_id for query_id, _ in queries], [text for _, text in queries]]
        table = pa.table(columns, schema=schema.QUERIES)
        return Payload(path, {"rows": write_table(path, schema.QUERIES, [table])})

    def _read(self, file: Path) -> list[tuple[str, str]]:
        queries = read_queries(file)
        return [q for q in queries if self.only is None or q[0] in self.only]
