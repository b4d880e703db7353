"""The amounts of one store: what it holds and takes, as far as it is known."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raypipe import schema
from raypipe.driver.forecast.records import TEXTS, Sample, blocks_of, sample_of_stored
from raypipe.models.folder.model_folder import ModelFolder
from raypipe.storage.payloads import concatenate
from raypipe.storage.records import Json, Shard
from raypipe.storage.store import Stored
from raypipe.text.inputs import TextSlice

Int64 = NDArray[np.int64]
Lines = NDArray[np.float64]


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


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Amounts:
    """Of one store, as far as it takes any."""

    rows: int
    num_bytes: float | None = None
    """Of its payloads; None means what its stage estimates."""
    seconds: float = 0.0
    """CPU seconds beside a model's forward passes."""
    inputs: ModelInputs | None = None
    inferences: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Of a reranker: expected, at least, at most."""
    shards: Sequence[Shard] | None = None
    """The plan, where the stage's own reads what is not there yet."""
    facts: Mapping[str, Json] = field(default_factory=dict)
    """Those of the records that later stages read: an integer is that of all rows together."""
    payload: bytes = b""
    """A payload that a later stage reads while it is planned."""
    sample: Sample | None = None
    pieces: TextSlice | None = None
    """Of a store of word pieces: those of sampled rows."""
    lines: Lines | None = None
    """Of a run, by query."""
    made_of: frozenset[str] = frozenset()
    """The identities of the runs that a run is made of, its own too."""
    note: str = ""


def held(stored: Stored) -> Amounts:
    """What a store that is there holds: a sample of its texts, the lines of its run."""
    produces, facts = stored.spec.produces, dict[str, Any]()
    for record in stored.manifest.records:  # integers added up, of anything else the first
        for name, value in record.facts.items():
            number = isinstance(value, int) and not isinstance(value, bool)
            facts[name] = facts.get(name, 0) + value if number else facts.get(name, value)
    sample, lines, pieces = None, None, None
    if produces in TEXTS:
        sample = sample_of_stored(stored, TEXTS[produces])
    elif produces == "run":
        rows = stored.whole_table(schema.RUN)["query_row"].to_numpy()
        lines = np.bincount(rows, minlength=stored.num_rows).astype(np.float64)
    elif produces == "tokens":
        parts = [stored.tokens(start, stop) for start, stop in blocks_of(stored.num_rows)]
        flat, offsets = concatenate(parts)
        pieces = TextSlice(flat, offsets[:-1], np.diff(offsets))
    own = frozenset([stored.identity]) if produces == "run" else frozenset[str]()
    return Amounts(
        rows=stored.num_rows, facts=facts, sample=sample, pieces=pieces, lines=lines, made_of=own
    )
