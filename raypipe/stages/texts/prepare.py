"""The stages that turn files into a collection: count the records of each file, then convert."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from raypipe import schema
from raypipe.data.facts import FileFacts, count_file, from_json, to_json
from raypipe.data.reading import Errors, Tally, read_records
from raypipe.data.unchanged import changed
from raypipe.stages.stage import Beat, Needs, Opened, Payload, Rows, Site, Sizing, ranges
from raypipe.storage.payloads.tables import write_table
from raypipe.storage.places.copies import on_this_node
from raypipe.storage.records import Shard, canonical, digest
from raypipe.storage.spec import StageSpec
from raypipe.storage.stored import Stored

BATCH_RECORDS = 1024
UNPACKED = 5
"""Approximate bytes of text per byte of a compressed file."""


@dataclass
class CountStage:
    """One pass over each input file for hashes, records and offsets. One shard per file."""

    files: Sequence[Path]
    format: str
    sources: Mapping[str, str] = field(default_factory=dict)
    """URIs of files that were fetched, by path."""
    needs: Needs = Needs()
    skips_rows: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Look at the files once, in the driver: copies on a node may have other times."""
        self._stamps = _stamps(self.files, self.sources)

    @property
    def spec(self) -> StageSpec:
        """Sizes and times in place of the content, whose hash this stage computes."""
        return StageSpec("count", 2, {"format": self.format}, self._stamps, "facts")

    def shards(self, sizing: Sizing) -> list[Shard]:
        """One shard per file, in reading order."""
        return ranges(len(self.files), 1)

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """See Stage."""
        return 0

    def open(self, site: Site) -> Opened:
        """See Stage; facts of each file as JSON."""
        return Opened(partial(self._run, site.scratch))

    def _run(self, scratch: Path, shard: Shard, skip: Rows, beat: Beat) -> Payload:
        beat(range(shard.start, shard.stop))
        file = on_this_node(self.files[shard.start], self.sources, scratch)
        before = _stamps([file])
        facts = count_file(file, format=self.format)
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


@dataclass
class ConvertStage:
    """Input files as Parquet passages; a passage's row is its position over all files in order."""

    files: Sequence[Path]
    facts: Sequence[FileFacts]
    format: str
    errors: Errors = "strict"
    sources: Mapping[str, str] = field(default_factory=dict)
    needs: Needs = Needs()
    skips_rows: ClassVar[bool] = False

    @property
    def spec(self) -> StageSpec:
        """The content's hashes, how it is read, and the written format."""
        # One digest, by position: other names and another number of files are content too.
        inputs = {"content:files": digest(canonical([facts.sha256 for facts in self.facts]))}
        params = {"format": self.format, "errors": self.errors, "passages": "parquet-1"}
        return StageSpec("prepare", 1, params, inputs, "passages")

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
        """See Stage."""
        whole = sum(f.num_bytes * (UNPACKED if f.compressed else 1) for f in self.facts)
        return whole * num_rows // max(1, num_planned)

    def open(self, site: Site) -> Opened:
        """See Stage; passages of a shard's records; memory holds one row group."""
        return Opened(partial(self._run, site.scratch))

    def _run(self, scratch: Path, shard: Shard, skip: Rows, beat: Beat) -> Payload:
        path = scratch / f"{shard.index}.parquet"
        tally = Tally()
        batches = self._batches(scratch, shard, beat, tally)
        num_rows = write_table(path, schema.PASSAGES, batches)
        facts = {"rows": num_rows, "replaced": tally.num_replaced, "blank": tally.num_blank}
        return Payload(path, facts)

    def _batches(
        self, scratch: Path, shard: Shard, beat: Beat, tally: Tally
    ) -> Iterator[pa.RecordBatch]:
        first = 0
        for file, facts in zip(self.files, self.facts, strict=True):
            start = max(shard.start - first, 0)
            stop = min(shard.stop - first, facts.num_records)
            first += facts.num_records
            if start >= stop:
                continue
            records = read_records(
                on_this_node(file, self.sources, scratch),
                format=self.format,
                start=start,
                stop=stop,
                facts=facts,
                errors=self.errors,
                tally=tally,
            )
            yield from _batched(records, beat)


def _batched(records: Iterator[tuple[str, str]], beat: Beat) -> Iterator[pa.RecordBatch]:
    ids: list[str] = []
    texts: list[str] = []
    num_bytes = 0
    for passage_id, text in records:
        ids.append(passage_id)
        texts.append(text)
        num_bytes += len(text)
        if len(ids) >= BATCH_RECORDS or num_bytes >= 1 << 24:
            beat(())
            yield pa.record_batch([ids, texts], schema=schema.PASSAGES)
            ids, texts, num_bytes = [], [], 0
    if ids:
        yield pa.record_batch([ids, texts], schema=schema.PASSAGES)
