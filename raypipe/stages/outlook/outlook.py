"""What a stage can say of its store before it is computed, and what it may ask for that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from raypipe.stages.stage import Sizing, Stage
from raypipe.storage.payloads import Flat, Offsets
from raypipe.storage.records import Json, Shard
from raypipe.storage.store import Stored
from raypipe.text.inputs import TextSlice

if TYPE_CHECKING:  # it imports tokenizers, and readers of a run need none
    from raypipe.models.folder.model_folder import ModelFolder

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]


ID_BYTES = 20.0
"""Of an id where no sample of them is known."""


def mean_bytes(texts: pa.ChunkedArray) -> float:
    """The average length of texts in UTF-8; 0.0 of none."""
    return float(pc.mean(pc.binary_length(texts)).as_py() or 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Some rows of a table of texts; each stands for the same number of rows."""

    texts: Sequence[str]
    num_rows: int
    """Of the whole table."""
    id_bytes: float = ID_BYTES
    """Of a row's id, on average."""

    @property
    def share(self) -> float:
        """The share of the rows that were read; 1.0 of an empty table."""
        return len(self.texts) / self.num_rows if self.num_rows else 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """The word pieces of a sample's texts, and the CPU seconds that these took."""

    flat: Flat
    offsets: Offsets
    cpu_seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class ModelInputs:
    """A sample of the inputs that a model will read, and how many there will be."""

    model: ModelFolder
    side: str
    """passage or query of an encoder; pair of a reranker."""
    texts: tuple[TextSlice, ...]
    """The sampled inputs' texts, not cut: one, or a query and one or two passages."""
    lengths: Int64
    """Tokens of the sampled inputs, special tokens included."""
    number: float
    """Of all inputs."""

    @property
    def num_tokens(self) -> float:
        """Tokens of all inputs."""
        return self.number * float(self.lengths.mean()) if len(self.lengths) else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedRun:
    """The lines of a run, by query."""

    lines: Float64
    """Of queries that are evenly spaced in the query set, [q]."""
    num_queries: int
    """Of the whole query set."""
    num_passages: int
    """Of the collection; of a run of documents, their number."""
    line_bytes: float = 0.0
    """Of its payload, for a line."""

    def total(self, per_query: Float64) -> float:
        """The sum over the whole query set of a number that each sampled query has."""
        return float(per_query.mean()) * self.num_queries if len(per_query) else 0.0


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Outlook:
    """What a stage expects of its whole store; an estimate unless its docstring says otherwise."""

    num_rows: int
    num_bytes: float = 0.0
    """Of its payloads."""
    cpu_seconds: float = 0.0
    """Of the work beside a model's forward passes, loading excluded."""
    inputs: ModelInputs | None = None
    """What a model will read; None if no model has a part in it."""
    num_inferences: float = 0.0
    """Of a reranker."""
    shards: Sequence[Shard] | None = None
    """The plan, where `Stage.shards` would have to read what is not there yet."""
    facts: Mapping[str, Json] = field(default_factory=dict)
    """Those of the records that later stages read: an integer is that of all rows together."""
    payload: bytes = b""
    """A payload that a later stage reads while it is planned."""
    sample: Sample | None = None
    """Of a table of texts."""
    pieces: Pieces | None = None
    """Of a store of word pieces: those of sampled rows."""
    run: ExpectedRun | None = None
    """Of a run."""
    notes: tuple[str, ...] = ()
    """What the reader of a forecast has to know of this one."""


class Seen(Protocol):
    """What a stage may ask for its outlook: its inputs, there or only expected."""

    sizing: Sizing

    def of(self, stored: Stored) -> Outlook:
        """The outlook of an input; of one that is there, what it really holds."""

    def has(self, stored: Stored) -> bool:
        """Whether it is there, and can be read."""

    def readable(self, stored: Stored) -> bool:
        """Whether its payload can be read: it is there, or foreseen to the last byte."""

    def sample(self, texts: Stored) -> Sample:
        """Some rows of passages or queries, evenly spaced or in blocks that are."""

    def pieces(self, texts: Stored, model: ModelFolder, prefix: str) -> Pieces:
        """The word pieces of the same rows."""

    def found(self, queries: Stored, passages: Stored, depth: int, *, least: int = 1) -> Int64:
        """Sampled passages that resemble what a search finds first, for sampled queries.

        int64 [q, m], positions in both samples, best first, -1 where there is none. The share of
        the sampled passages is that of `depth` in the whole collection, rounded up; but `least`.
        """

    def ranked(
        self, queries: Stored, passages: Stored, depth: int
    ) -> tuple[Int64, NDArray[np.float32]]:
        """Runs like those of BM25 for sampled queries: rows and scores, both [q, depth] at most.

        Rows are as far apart as those of the whole collection; -1 where no more passages match.
        """

    def matching(self, queries: Stored, passages: Stored) -> Float64:
        """The number of passages of the whole collection with a term of each sampled query, [q]."""


@runtime_checkable
class Foreseeing(Stage, Protocol):
    """A stage that can say more before it runs than its plan and `estimated_bytes`."""

    def outlook(self, seen: Seen) -> Outlook:
        """What its store will hold, and what it takes to compute it."""
