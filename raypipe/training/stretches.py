"""Stretches: the text of a collection cut into inputs, and the stage that cuts it.

A table says where each begins and ends: flat arrays in one safetensors file, mapped for reading;
the text stays in the token store.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from raypipe.errors import InputError
from raypipe.stages.scoring.token_rows import TokenRows
from raypipe.stages.stage import Beat, Opened, Payload, Rows, Site, Sizing, Stage
from raypipe.storage.payloads import map_tensors, map_tokens, write_tensors
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored, spec_over
from raypipe.text.inputs import TextSlice

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Stretches:
    """N stretches, in the order of the text."""

    first_rows: Int32
    """[N]: the passage in which a stretch begins."""
    last_rows: Int32
    """[N]: the passage in which it ends."""
    starts: Int32
    """[N]: where it begins, counted from its first passage's first piece."""
    counts: Int32
    """[N]: its pieces, with the separators between passages."""

    @property
    def num_stretches(self) -> int:
        """N."""
        return len(self.counts)


def cut(counts: Int64, *, limit: int, joined: bool, least: int) -> Stretches:
    """The stretches of passages with these numbers of pieces, int64 [R]; empty ones have none.

    Args:
        counts: word pieces of each passage, in row order.
        limit: pieces of a stretch at most.
        joined: whether a stretch runs on over passages, with one separator between two of them, so
            that all but the last have `limit` pieces; otherwise each passage begins a new one.
        least: shorter stretches are left out.
    """
    rows = np.flatnonzero(counts)
    own = counts[rows]
    if joined:
        ends = np.cumsum(own + 1)
        at = np.arange(0, ends[-1] - 1 if len(ends) else 0, limit)
        stops = np.minimum(at + limit, ends[-1] - 1) if len(ends) else at
        first = np.searchsorted(ends, at, side="right")
        last = np.searchsorted(ends, stops - 1, side="right")
        begin = at - (ends - own - 1)[first] if len(ends) else at
    else:
        parts = -(-own // limit)
        first = last = np.repeat(np.arange(len(rows)), parts)
        number = np.arange(len(first)) - np.repeat(np.cumsum(parts) - parts, parts)
        begin = number * limit
        at, stops = begin, np.minimum(begin + limit, own[first])
    kept = stops - at >= least
    found = (rows[first][kept], rows[last][kept], begin[kept], (stops - at)[kept])
    return Stretches(*(np.ascontiguousarray(each, np.int32) for each in found))


def read(table: Stretches, tokens: TokenRows, separator: int, numbers: Int64) -> TextSlice:
    """The text of the stretches with these numbers, int64 [B], in their order."""
    first, last = table.first_rows[numbers], table.last_rows[numbers]
    widths = last.astype(np.int64) - first + 1
    ends = np.cumsum(widths)
    rows = np.arange(ends[-1] if len(ends) else 0) + np.repeat(first - (ends - widths), widths)
    part = tokens.part(rows)
    texts, behind = [], np.array([separator], part.flat.dtype)
    for number, stop, width in zip(numbers, ends, widths, strict=True):
        joined: list[NDArray[np.uint16 | np.uint32]] = []
        for place in range(stop - width, stop):
            if part.counts[place]:
                begin = part.starts[place]
                joined.append(part.flat[begin : begin + part.counts[place]])
                joined.append(behind)
        start = table.starts[number]
        texts.append(np.concatenate(joined)[start : start + table.counts[number]])
    sizes = table.counts[numbers].astype(np.int64)
    flat = np.concatenate(texts) if texts else part.flat[:0]
    return TextSlice(flat, np.cumsum(sizes) - sizes, sizes)


def write_stretches(path: Path, table: Stretches) -> None:
    """Write the table as one safetensors file."""
    write_tensors(path, {name: getattr(table, name) for name in Stretches.__slots__})


def map_stretches(path: Path) -> Stretches:
    """The table in a file of `write_stretches`, mapped."""
    return Stretches(**map_tensors(path))


SEMANTICS = 1
BYTES = 16
"""Of a stretch in the table."""


@dataclass(frozen=True)
class StretchesStage(Stage):
    """The stretches of one training set; their text stays in the token store."""

    tokens: Stored
    limit: int
    """Pieces of a stretch at most."""
    joined: bool
    least: int
    """Pieces of a stretch at least."""
    name: str = ""
    """The name of the set, for messages."""

    @property
    def spec(self) -> StageSpec:
        """The word pieces and how they are cut."""
        params = {"limit": self.limit, "joined": self.joined, "least": self.least}
        stores = {"tokens": self.tokens}
        return spec_over("stretches", SEMANTICS, params, stores, produces="examples")

    def shards(self, sizing: Sizing) -> list[Shard]:
        """One shard."""
        return [Shard(0, 0, self.tokens.num_rows)]

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """The estimated bytes of the table, BYTES for each stretch."""
        return BYTES * (num_rows + self.tokens.num_bytes // (2 * self.limit))

    def open(self, site: Site) -> Opened:
        """The opened stage, whose facts are the number of stretches and that of their pieces.

        Its `run` raises InputError if no stretch is left.
        """
        return Opened(partial(self._run, site.scratch))

    def _run(self, scratch: Path, shard: Shard, skip: Rows, beat: Beat) -> Payload:
        counts = []
        for record in self.tokens.manifest.records:
            beat(())
            _, offsets = map_tokens(self.tokens.path(record))
            counts.append(np.diff(offsets))
        table = cut(np.concatenate(counts), limit=self.limit, joined=self.joined, least=self.least)
        if not table.num_stretches:
            raise InputError(
                f"train.{self.name}: the collection's text gives no input of at least {self.least} "
                "word pieces; name a collection with text"
            )
        path = scratch / "stretches.safetensors"
        write_stretches(path, table)
        pieces = int(table.counts.sum())
        facts = {"rows": shard.num_rows, "examples": table.num_stretches, "pieces": pieces}
        return Payload(path, facts)
