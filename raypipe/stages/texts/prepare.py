"""The stages that turn files into a collection: count the records of each file, then convert."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa

from raypipe import schema
from raypipe.data.facts import FileFacts, changed, count_file, from_json, to_json
from raypipe.data.reading import read_records
from raypipe.stages.stage import Beat, Opened, Payload, Rows, Site, Sizing, Stage, ranges
from raypipe.stages.texts.counted_files import CountedFiles, ReadRecords
from raypipe.storage.records import Json, Shard, canonical, digest
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored
from raypipe.vocabulary import Ids


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
