"""Samples of texts, for forecasts: evenly spaced rows of files, or of a store."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from time import process_time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from raypipe import schema
from raypipe.data.facts import FileFacts
from raypipe.data.reading import Tally
from raypipe.models.folder.model_folder import ModelFolder, layouts_of, open_tokenizer
from raypipe.stages.texts.counted_files import CountedFiles, ReadRecords
from raypipe.stages.texts.ids import column_of_rows
from raypipe.stages.texts.tokenize import pieces_of
from raypipe.storage.payloads import concatenate
from raypipe.storage.store import Stored
from raypipe.text.inputs import TextSlice, cut_to, taken
from raypipe.text.word_pieces import WordPieces

ROWS, NUM_BLOCKS = 2_000, 100
"""Rows of a sample at most, in blocks that are evenly spaced."""
ONE_PASS_RECORDS = 200_000
"""A file of so many records is read from its beginning to the last block. Of a longer one, blocks
are moved to the checkpoint before them, and where there is none to the beginning."""
ID_BYTES = 20.0
"""Of an id where no sample of them is known."""


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
        """Of all texts in UTF-8."""
        return mean_bytes(pa.array(self.texts, pa.string())) * self.num_rows

    @property
    def num_bytes(self) -> float:
        """Of all texts and ids in UTF-8."""
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


def mean_bytes(texts: pa.Array | pa.ChunkedArray) -> float:
    """The average length of texts in UTF-8; 0.0 of none."""
    return float(pc.mean(pc.binary_length(texts)).as_py() or 0.0)


def blocks_of(num_rows: int) -> list[tuple[int, int]]:
    """[start, stop) of evenly spaced blocks, all rows of a small table."""
    wanted = min(num_rows, ROWS)
    number = min(NUM_BLOCKS, wanted)
    edges = [wanted * i // max(1, number) for i in range(number + 1)]
    gap = (num_rows - wanted) / max(1, number)
    starts = [round(gap * (i + 0.5)) + edges[i] for i in range(number)]
    if wanted == num_rows:
        return [(0, num_rows)] if num_rows else []
    return [(start, start + edges[i + 1] - edges[i]) for i, start in enumerate(starts)]


def sample_of_files(stage: CountedFiles) -> Sample:
    """Of the records that the stage will read.

    Of a large compressed file the first records stand for all. Bad records are left out, and the
    file is not compared with its count, unless it is read to its end: the stage will do both.

    Raises:
        InputError: bad records in a file that was read to its end.
    """
    began, found, first = process_time(), list[tuple[str, ...]](), 0
    num_rows = sum(facts.num_records for facts in stage.facts)
    blocks = blocks_of(num_rows)
    for file, facts in zip(stage.files, stage.facts, strict=True):
        last = first + facts.num_records
        own = [
            (max(start, first) - first, min(stop, last) - first)
            for start, stop in blocks
            if start < last and stop > first
        ]
        found += _of_file(file, facts, own, stage.read()) if own else ()
        first = last
    seconds = (process_time() - began) * num_rows / max(1, len(found))
    ids = pa.array([record[0] for record in found], pa.string())
    return Sample([record[-1] for record in found], num_rows, mean_bytes(ids), seconds)


def sample_of_stored(texts: Stored) -> Sample:
    """Of a table that is there: its last column, and the length of its first, the ids."""
    columns = _COLUMNS[texts.spec.produces]
    parts = [texts.table(columns, start, stop) for start, stop in blocks_of(texts.num_rows)]
    table = pa.concat_tables([columns.empty_table(), *parts])
    return Sample(table[-1].to_pylist(), texts.num_rows, mean_bytes(table[0]))


def tokenized_sample(sample: Sample, model: ModelFolder, prefix: str) -> tuple[TextSlice, float]:
    """The word pieces of the sampled texts, and the CPU seconds that each text took."""
    began = process_time()
    word_pieces, batch = WordPieces(open_tokenizer(model)), pa.array(sample.texts, pa.string())
    flat, offsets = concatenate([*pieces_of(word_pieces, [batch], model, prefix)])
    seconds = (process_time() - began) / max(1, len(sample.texts))
    return TextSlice(flat, offsets[:-1], np.diff(offsets)), seconds


def tokenized_rows(
    texts: Stored, rows: NDArray[np.int64], model: ModelFolder, prefix: str
) -> TextSlice:
    """The word pieces of rows of a table that is there, in this order."""
    distinct, places = np.unique(rows, return_inverse=True)
    found = column_of_rows(texts, distinct, "text", _COLUMNS[texts.spec.produces])
    pieces, _ = tokenized_sample(Sample(found, len(found)), model, prefix)
    return taken(pieces, places)


def pieces_of_stored(tokens: Stored) -> TextSlice:
    """Those of some rows of a store that is there."""
    parts = [tokens.tokens(start, stop) for start, stop in blocks_of(tokens.num_rows)]
    flat, offsets = concatenate(parts)
    return TextSlice(flat, offsets[:-1], np.diff(offsets))


_COLUMNS = {
    "passages": schema.PASSAGES,
    "documents": schema.DOCUMENTS,
    "homes": schema.HOMES,
    "queries": schema.QUERIES,
}
"""The columns of a table of texts, by what its stage produces."""


def _of_file(
    file: Path, facts: FileFacts, blocks: list[tuple[int, int]], read: ReadRecords
) -> Iterator[tuple[str, ...]]:
    def records(start: int) -> Iterator[tuple[str, ...]]:
        return read(file, start=start, stop=facts.num_records, facts=facts, tally=Tally())

    seeks = not facts.compressed and bool(facts.checkpoints)
    if not seeks or facts.num_records <= ONE_PASS_RECORDS:
        if facts.num_records > ONE_PASS_RECORDS:
            blocks = [(0, sum(stop - start for start, stop in blocks))]
        every, at = records(0), 0
        for start, stop in blocks:
            yield from islice(every, start - at, stop - at)
            at = stop
        return
    size = facts.checkpoint_records
    wanted: dict[int, int] = {}
    for start, stop in blocks:  # those behind one checkpoint are read as one, from there on
        wanted[start // size] = wanted.get(start // size, 0) + stop - start
    for checkpoint, number in wanted.items():
        yield from islice(records(checkpoint * size), number)
