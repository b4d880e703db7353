"""Samples of texts, for forecasts: evenly spaced rows of files, or of a store."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from time import process_time

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe import schema
from raypipe.data.facts import FileFacts
from raypipe.data.reading import Tally
from raypipe.models.folder.model_folder import ModelFolder, open_tokenizer
from raypipe.stages.ids import column_of_rows
from raypipe.stages.prepare import ReadRecords
from raypipe.stages.stage import Expected, Sample, Sizing, Stage, mean_bytes
from raypipe.stages.tokenize import piece_settings, pieces_of
from raypipe.storage.payloads import concatenate
from raypipe.storage.store import Stored
from raypipe.text.inputs import TextSlice, taken

ROWS, NUM_BLOCKS = 2_000, 100
"""Rows of a sample at most, in blocks that are evenly spaced."""
ONE_PASS_RECORDS = 200_000
"""A file of so many records is read from its beginning to the last block. Of a longer one, blocks
are moved to the checkpoint before them, and where there is none to the beginning."""


@dataclass
class Samples:
    """The expectations of a forecast, from samples of its texts.

    Each table of texts is sampled once, and its sample tokenised once by each tokenizer.
    """

    sizing: Sizing
    stages: Mapping[str, Sequence[Stage]]
    """Those before the one that is asked, by the reuse key of their spec."""
    _expected: dict[str, Expected] = field(default_factory=dict)
    """Of stores that are not there, by their origin."""
    _samples: dict[str, Sample] = field(default_factory=dict)
    _pieces: dict[tuple[object, ...], tuple[TextSlice, float]] = field(default_factory=dict)

    def has(self, stored: Stored) -> bool:
        """Whether the store is there, so that its payloads can be read."""
        return stored.origin not in self._expected

    def add(self, stored: Stored, expected: Expected) -> None:
        """A store that is not there."""
        self._expected[stored.origin] = expected

    def earlier(self, reuse_key: str) -> Sequence[Stage]:
        """The stages before this one with a `reuse_key`, in the order of the recipe."""
        return self.stages.get(reuse_key, ())

    def sample(self, texts: Stored) -> Sample:
        """The sample of a table of texts, which its stage made if the table is not there."""
        if texts.origin in self._expected:
            sample = self._expected[texts.origin].sample
            assert sample is not None  # as every table of texts has
            return sample
        if texts.origin not in self._samples:
            self._samples[texts.origin] = sample_of_stored(texts)
        return self._samples[texts.origin]

    def pieces(self, texts: Stored, model: ModelFolder, prefix: str) -> tuple[TextSlice, float]:
        """The word pieces of the sampled texts, and the CPU seconds that each text took."""
        key = (texts.origin, *piece_settings(model, prefix).values())
        if key not in self._pieces:
            self._pieces[key] = tokenized_sample(self.sample(texts), model, prefix)
        return self._pieces[key]

    def stored_pieces(self, tokens: Stored) -> TextSlice:
        """The word pieces of some rows of a store of them, expected or there."""
        if tokens.origin in self._expected:
            pieces = self._expected[tokens.origin].pieces
            assert pieces is not None  # as every store of word pieces has
            return pieces
        return pieces_of_stored(tokens)

    def sample_files(
        self, files: Sequence[Path], facts: Sequence[FileFacts], read: ReadRecords
    ) -> Sample:
        """Some records of counted files."""
        return sample_of_files(files, facts, read)

    def pieces_of_rows(
        self, texts: Stored, rows: NDArray[np.int64], model: ModelFolder, prefix: str
    ) -> TextSlice:
        """The word pieces of rows of a table that is there, in this order."""
        distinct, places = np.unique(rows, return_inverse=True)
        sampled = column_of_rows(texts, distinct, "text", _COLUMNS[texts.spec.produces])
        pieces, _ = tokenized_sample(Sample(sampled, len(sampled)), model, prefix)
        return taken(pieces, places)


def blocks_of(num_rows: int) -> list[tuple[int, int]]:
    """[start, stop) of evenly spaced blocks, all rows of a small table."""
    num_sampled = min(num_rows, ROWS)
    number = min(NUM_BLOCKS, num_sampled)
    edges = [num_sampled * i // max(1, number) for i in range(number + 1)]
    gap = (num_rows - num_sampled) / max(1, number)
    starts = [round(gap * (i + 0.5)) + edges[i] for i in range(number)]
    if num_sampled == num_rows:
        return [(0, num_rows)] if num_rows else []
    return [(start, start + edges[i + 1] - edges[i]) for i, start in enumerate(starts)]


def sample_of_files(files: Sequence[Path], facts: Sequence[FileFacts], read: ReadRecords) -> Sample:
    """A sample of the records that a stage will read.

    Of a large compressed file the first records stand for all. Bad records are left out, and the
    file is not compared with its count, unless it is read to its end: the stage will do both.

    Raises:
        InputError: bad records in a file that was read to its end.
    """
    began, records, first = process_time(), list[tuple[str, ...]](), 0
    num_rows = sum(each.num_records for each in facts)
    blocks = blocks_of(num_rows)
    for file, of_file in zip(files, facts, strict=True):
        last = first + of_file.num_records
        own = [
            (max(start, first) - first, min(stop, last) - first)
            for start, stop in blocks
            if start < last and stop > first
        ]
        records += _of_file(file, of_file, own, read) if own else ()
        first = last
    seconds = (process_time() - began) * num_rows / max(1, len(records))
    ids = pa.array([record[0] for record in records], pa.string())
    return Sample([record[-1] for record in records], num_rows, mean_bytes(ids), seconds)


def sample_of_stored(texts: Stored) -> Sample:
    """A sample of a table that is there: its last column, and the length of its ids, the first."""
    columns = _COLUMNS[texts.spec.produces]
    parts = [texts.table(columns, start, stop) for start, stop in blocks_of(texts.num_rows)]
    table = pa.concat_tables([columns.empty_table(), *parts])
    return Sample(table[-1].to_pylist(), texts.num_rows, mean_bytes(table[0]))


def tokenized_sample(sample: Sample, model: ModelFolder, prefix: str) -> tuple[TextSlice, float]:
    """The word pieces of the sampled texts, and the CPU seconds that each text took."""
    from raypipe.text.word_pieces import word_pieces_of

    began = process_time()
    word_pieces, batch = word_pieces_of(open_tokenizer(model)), pa.array(sample.texts, pa.string())
    flat, offsets = concatenate([*pieces_of(word_pieces, [batch], model, prefix)])
    seconds = (process_time() - began) / max(1, len(sample.texts))
    return TextSlice(flat, offsets[:-1], np.diff(offsets)), seconds


def pieces_of_stored(tokens: Stored) -> TextSlice:
    """The word pieces of some rows of a store that is there."""
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
    numbers: dict[int, int] = {}
    for start, stop in blocks:  # those behind one checkpoint are read as one, from there on
        numbers[start // size] = numbers.get(start // size, 0) + stop - start
    for checkpoint, number in numbers.items():
        yield from islice(records(checkpoint * size), number)
