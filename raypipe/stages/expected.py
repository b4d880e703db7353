"""The contents and cost of stores that are not there yet: a stage says it, a forecast adds up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from raypipe.storage.records import Json, Shard
from raypipe.storage.store import Stored

if TYPE_CHECKING:
    from raypipe.models.folder.model_folder import ModelFolder
    from raypipe.text.inputs import TextSlice

UNTIMED = "the time of approximate search is not forecast"
ID_BYTES = 20.0
"""Of an id where no sample of them is known."""


def mean_bytes(texts: pa.Array | pa.ChunkedArray) -> float:
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
    cpu_seconds: float = 0.0
    """Of reading the records of the whole table, by those of the sample."""

    @property
    def scale(self) -> float:
        """How many rows each text stands for; 0 of an empty table."""
        return self.num_rows / len(self.texts) if len(self.texts) else 0.0

    @property
    def text_bytes(self) -> float:
        """Bytes of all texts in UTF-8."""
        return mean_bytes(pa.array(self.texts, pa.string())) * self.num_rows

    @property
    def num_bytes(self) -> float:
        """Bytes of all texts and ids in UTF-8."""
        return self.text_bytes + self.id_bytes * self.num_rows


@dataclass(frozen=True, slots=True, eq=False)
class ModelInputs:
    """A sample of the inputs that a model will read, and how many there will be."""

    model: ModelFolder
    side: str
    """passage or query of an encoder; pair of a reranker."""
    texts: tuple[TextSlice, ...]
    """The sampled inputs' texts, not cut: one, or a query and one or two passages."""
    number: float
    """Of all inputs; at most, of a reranker's."""
    lengths: NDArray[np.int64] = field(init=False)
    """Tokens of the sampled inputs, special tokens included."""

    def __post_init__(self) -> None:
        """Measure the sampled inputs, cut as the model's are."""
        from raypipe.models.folder.model_folder import layouts_of  # a rerun needs neither
        from raypipe.text.inputs import cut_to
        from raypipe.text.utf8 import BYTES_A_PIECE

        if self.model.by_library:
            num_bytes = np.sum([text.counts for text in self.texts], axis=0)
            pair = self.side == "pair"
            most = self.model.reranker.total_limit if pair else self.model.encoder.limit(self.side)
            lengths = np.minimum(num_bytes // BYTES_A_PIECE + 2, most)
            object.__setattr__(self, "lengths", lengths)
            return
        layout = layouts_of(self.model)[self.side]
        if self.side == "pair":
            query, *passages = self.texts
            specials = layout.num_specials
            parts = cut_to(self.model.reranker, query, passages, num_specials=specials)
            counts = [part.counts for part in parts]
        else:
            counts = [np.minimum(self.texts[0].counts, self.model.encoder.limit(self.side))]
        object.__setattr__(self, "lengths", layout.lengths(counts))

    @property
    def num_tokens(self) -> float:
        """Tokens of all inputs."""
        return self.number * float(self.lengths.mean()) if len(self.lengths) else 0.0


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Expected:
    """A store that is not there yet, as far as its stage can say without computing it."""

    shards: Sequence[Shard]
    """The plan; the stage's own may have to read stores that are not there."""
    num_bytes: float
    """Of its payloads."""
    seconds: float = 0.0
    """CPU seconds beside a model's forward passes."""
    inputs: ModelInputs | None = None
    facts: Mapping[str, Json] = field(default_factory=dict)
    """Those of the records that later stages read; a whole number is that of all rows together."""
    payload: bytes = b""
    """A payload that a later stage reads while it is planned."""
    sample: Sample | None = None
    """Of a table of texts."""
    pieces: TextSlice | None = None
    """Of a store of word pieces: those of sampled rows."""
    note: str = ""
    """For people who read the forecast."""

    @property
    def num_rows(self) -> int:
        """Rows of all shards."""
        return sum(shard.num_rows for shard in self.shards)


def sum_of(fact: str, stored: Stored) -> int:
    """A fact of a store's records, added up; also where the store is only expected."""
    return sum(int(record.facts[fact]) for record in stored.manifest.records)
