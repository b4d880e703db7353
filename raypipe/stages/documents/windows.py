"""The number of passages of each document, from which the rows of all passages follow."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from raypipe import schema
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
from raypipe.storage.payloads import map_tensors, write_tensors
from raypipe.storage.records import Json, Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored, spec_over
from raypipe.text.split import Splitting, num_passages

COUNT_BYTES = 4


@dataclass(frozen=True)
class WindowsStage(Stage):
    """How many passages each document is split into, int32."""

    documents: Stored
    splitting: Splitting

    @property
    def spec(self) -> StageSpec:
        """The documents and how they are split; what is put in front changes no number."""
        params = counting_settings(self.splitting)
        return spec_over("windows", 1, params, {"documents": self.documents}, produces="windows")

    def shards(self, sizing: Sizing) -> list[Shard]:
        """Ranges of documents."""
        return ranges(self.documents.num_rows, sizing.shard_rows)

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """The estimated bytes of the payload of these rows."""
        return COUNT_BYTES * num_rows

    def expected(self, expectations: Expectations) -> Expected:
        """An estimate: the passages of a sample of the documents."""
        documents = expectations.sample(self.documents)
        passages = sum(num_passages(body, self.splitting) for body in documents.texts)
        facts = {"rows": documents.num_rows, "passages": round(passages * documents.scale)}
        return replace(super().expected(expectations), facts=facts)

    def open(self, site: Site) -> Opened:
        """Open it: `passages`, int32 [documents of the shard]."""
        return Opened(partial(self._run, site.scratch))

    def _run(self, scratch: Path, shard: Shard, skip: Rows, beat: Beat) -> Payload:
        counts = np.array([*self._counts(shard, beat)], np.int32)
        path = scratch / f"{shard.index}.safetensors"
        write_tensors(path, {"passages": counts})
        return Payload(path, {"rows": shard.num_rows, "passages": int(counts.sum())})

    def _counts(self, shard: Shard, beat: Beat) -> Iterator[int]:
        for table in self.documents.tables(schema.DOCUMENTS, shard.start, shard.stop):
            beat(())
            for body in table["body"].to_pylist():
                yield num_passages(body, self.splitting)


def splitting_settings(splitting: Splitting) -> dict[str, Json]:
    """The settings on which a passage's text depends, and how text without blanks is counted."""
    counted = {} if splitting.by == "whole" else {"unspaced": "characters"}
    return {**asdict(splitting), **counted}


def counting_settings(splitting: Splitting) -> dict[str, Json]:
    """Settings on which the number of passages depends."""
    front = ("title_words", "headings_words")
    settings = splitting_settings(splitting).items()
    return {name: value for name, value in settings if name not in front}


def first_rows(windows: Stored) -> NDArray[np.int64]:
    """The row of each document's first passage, and then the number of all, int64 [D + 1]."""
    counts = [map_tensors(windows.path(record))["passages"] for record in windows.manifest.records]
    edges = np.zeros(windows.num_rows + 1, np.int64)
    np.cumsum(np.concatenate(counts), out=edges[1:])
    return edges
