"""The interface of a stage: work that maps over shards, independent of what runs it.

A stage also says what its store will hold and cost before it is there; a forecast adds that up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from raypipe.storage.records import Json, Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored
from raypipe.vocabulary import DEPTH

if TYPE_CHECKING:
    from raypipe.data.facts import FileFacts
    from raypipe.models.folder.model_folder import ModelFolder
    from raypipe.text.inputs import TextSlice


Rows = Sequence[int]
Beat = Callable[[Rows], None]


@dataclass(frozen=True, slots=True)
class Needs:
    """The resources of one worker of a stage."""

    num_cpus: float = 1.0
    num_gpus: float = 0.0
    threads: int = 1
    jvm: bool = False
    """It starts a JVM, which stays in its process until the end: so only such stages share one."""


@dataclass(frozen=True, slots=True)
class Sizing:
    """The intended sizes of a plan's shards; not part of any fingerprint."""

    num_actors: int = 1
    shard_tokens: int = 250_000
    shard_rows: int = 100_000
    shard_queries: int = 1_000


@dataclass(frozen=True, slots=True)
class Site:
    """Where a stage is opened: the worker's device, threads and folder for unfinished files."""

    scratch: Path
    device: str = "cpu"
    threads: int = 1


@dataclass(frozen=True, slots=True)
class Payload:
    """A shard's complete but uncommitted file, and the facts that a reader needs.

    `facts` holds only what the rows determine, including `numerics` if floats are computed.
    """

    path: Path
    facts: Mapping[str, Json] = field(default_factory=dict)
    num_copied: int = 0
    """Rows whose values were taken from an older store; it stands in no record."""
    num_tokens: int = 0
    """Tokens that a model read, special tokens included; it stands in no record."""
    computing_seconds: float | None = None
    """In which a GPU computed the shard; None if nobody measured it. It stands in no record."""


def nothing() -> None:
    """A close that does nothing, where Python frees all that was opened."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A stage in a worker, ready for its shards."""

    run: Callable[[Shard, Rows, Beat], Payload]
    """Computes a shard without the rows of `skip`; a pure function of (shard, skip). It calls
    beat(rows) before each batch: a heartbeat, and a record of the rows if the worker dies."""
    facts: Mapping[str, Json] = field(default_factory=dict)
    """Versions and numerics class."""
    close: Callable[[], None] = nothing
    """Frees what would outlive the last reference to this, such as files that a JVM holds open."""


class Expectations(Protocol):
    """A recipe's stores before they are there, for the stages that read them; see `expected`."""

    sizing: Sizing

    def has(self, stored: Stored) -> bool:
        """Whether the store is there, so that its payloads can be read."""

    def earlier(self, reuse_key: str) -> Sequence[Stage]:
        """The recipe's stages before this one with a `reuse_key`, whether their stores are there
        or not."""

    def sample(self, texts: Stored) -> Sample:
        """Some rows of a table of texts; its stage has them if it is not there."""

    def sample_files(
        self, files: Sequence[Path], facts: Sequence[FileFacts], read: Callable[..., Any]
    ) -> Sample:
        """Some records of counted files; `read` is a ReadRecords."""

    def pieces(self, texts: Stored, model: ModelFolder, prefix: str) -> tuple[TextSlice, float]:
        """The word pieces of the sampled texts, and the CPU seconds that each text took."""

    def pieces_of_rows(
        self, texts: Stored, rows: NDArray[np.int64], model: ModelFolder, prefix: str
    ) -> TextSlice:
        """The word pieces of rows of a table that is there, in this order."""

    def stored_pieces(self, tokens: Stored) -> TextSlice:
        """The word pieces of some rows of a store of them."""


class Stage(ABC):
    """Work that maps over shards: reads stores, writes one store."""

    needs: Needs = Needs()
    """The resources of one worker."""
    skips_rows: ClassVar[bool] = False
    """Whether a shard can be computed without some of its rows. Only then are bad rows searched for
    when workers die."""

    if TYPE_CHECKING:  # a property of most stages and a field of others, so none is inherited

        @property
        def spec(self) -> StageSpec:
            """Everything that a row's value depends on."""

    @abstractmethod
    def shards(self, sizing: Sizing) -> list[Shard]:
        """The plan for a new store; an existing plan is used instead."""

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """The estimated bytes of payload of `num_rows` of all planned rows; 0 if small."""
        return 0

    def expected(self, expectations: Expectations) -> Expected:
        """The contents and cost of the store, before the stores that it reads are there.

        Without more to say, its plan and `estimated_bytes`; of a run, a whole list for each query.
        A store that is not there has a manifest with its shards, bytes and `Expected.facts`.

        Raises:
            InputError: a sample of its files has a bad record.
        """
        shards = self.shards(expectations.sizing)
        num_rows = sum(shard.num_rows for shard in shards)
        num_bytes, spec = float(self.estimated_bytes(num_rows, num_rows)), self.spec
        if spec.produces != "run":
            return Expected(shards=shards, num_bytes=num_bytes, facts={"rows": num_rows})
        note = f"{spec.stage}: its time is not forecast, and its lines are the most"
        facts = {"rows": DEPTH * num_rows}
        return Expected(shards=shards, num_bytes=num_bytes, facts=facts, note=note)

    @abstractmethod
    def open(self, site: Site) -> Opened:
        """Open the stage in a worker: loads files by path and hash."""

    def reusing(self, older: Sequence[Stored]) -> Stage:
        """This stage, copying what it can from these complete stores, the first one first.

        They have the same `reuse_key`. A stage whose spec has none copies nothing.
        """
        return self

    def weights_of(self, shards: Sequence[Shard]) -> Sequence[float]:
        """The work of each shard beside that of the others; known without reading a payload.

        A shard's rows, times those of its span.
        """
        return [float(s.num_rows * max(1, s.span_stop - s.span_start)) for s in shards]


def ranges(num_rows: int, size: int) -> list[Shard]:
    """Shards of at most `size` rows, of nearly equal size; one empty shard if there are no rows."""
    num_shards = max(1, -(-num_rows // size))
    edges = [num_rows * i // num_shards for i in range(num_shards + 1)]
    return [Shard(i, edges[i], edges[i + 1]) for i in range(num_shards)]


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
