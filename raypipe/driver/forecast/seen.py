"""What stages may ask before they run: samples of texts, and what stores hold or will hold."""

from dataclasses import dataclass, field
from time import process_time

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe import schema
from raypipe.models.folder.conventions import PairConventions
from raypipe.models.folder.model_folder import ModelFolder
from raypipe.models.folder.opening import open_tokenizer
from raypipe.stages.outlook.outlook import (
    ExpectedRun,
    Float64,
    Int64,
    Outlook,
    Pieces,
    Sample,
    mean_bytes,
)
from raypipe.stages.outlook.records import blocks_of
from raypipe.stages.stage import Sizing
from raypipe.stages.texts.tokenize import pieces_of
from raypipe.storage.payloads import concatenate
from raypipe.storage.records import Json
from raypipe.storage.store import Stored
from raypipe.text.resembling import Resembling
from raypipe.text.word_pieces import WordPieces

MOST_QUERIES = 1_000
"""Queries of a set that are looked at, evenly spaced; their lengths stand for the others'."""
_TEXTS = {
    "passages": schema.PASSAGES,
    "documents": schema.DOCUMENTS,
    "homes": schema.HOMES,
}


@dataclass
class SeenStores:
    """See `Seen`. Every text is read and tokenised once."""

    sizing: Sizing
    expected: dict[str, Outlook] = field(default_factory=dict)
    """Of stores that are not there, by their origin."""
    _real: dict[str, Outlook] = field(default_factory=dict)
    _pieces: dict[tuple[str, str, bool, int, str], Pieces] = field(default_factory=dict)
    _resembling: dict[tuple[str, str], Resembling] = field(default_factory=dict)

    def of(self, stored: Stored) -> Outlook:
        """See Seen."""
        if stored.origin in self.expected:
            return self.expected[stored.origin]
        if stored.origin not in self._real:
            self._real[stored.origin] = outlook_of(stored)
        return self._real[stored.origin]

    def has(self, stored: Stored) -> bool:
        """See Seen."""
        return stored.origin not in self.expected

    def readable(self, stored: Stored) -> bool:
        """See Seen."""
        return self.has(stored) or bool(self.expected[stored.origin].payload)

    def sample(self, texts: Stored) -> Sample:
        """See Seen."""
        found = self.of(texts).sample
        assert found is not None  # as every table of texts has
        return found

    def pieces(self, texts: Stored, model: ModelFolder, prefix: str) -> Pieces:
        """See Seen."""
        settings = model.conventions
        first = isinstance(settings, PairConventions) and settings.first_tokenizer
        key = (texts.origin, model.tokenizer_sha256, first, model.max_pieces, prefix)
        if key not in self._pieces:
            sample, began = self.sample(texts), process_time()
            word_pieces = WordPieces(open_tokenizer(model))
            batch = pa.array(sample.texts, pa.string())
            flat, offsets = concatenate([*pieces_of(word_pieces, [batch], model, prefix)])
            self._pieces[key] = Pieces(flat, offsets, process_time() - began)
        return self._pieces[key]

    def found(self, queries: Stored, passages: Stored, depth: int, *, least: int = 1) -> Int64:
        """See Seen."""
        number = max(least, int(np.ceil(depth * self.sample(passages).share)))
        return self._between(queries, passages).first(number)[0]

    def ranked(
        self, queries: Stored, passages: Stored, depth: int
    ) -> tuple[Int64, NDArray[np.float32]]:
        """See Seen."""
        rows, scores = self._between(queries, passages).first(depth)
        apart = max(1, round(1 / (self.sample(passages).share or 1.0)))
        return np.where(rows < 0, rows, rows * apart), scores

    def matching(self, queries: Stored, passages: Stored) -> Float64:
        """See Seen."""
        share = self.sample(passages).share
        return self._between(queries, passages).num_matching() / (share or 1.0)

    def _between(self, queries: Stored, passages: Stored) -> Resembling:
        key = (queries.origin, passages.origin)
        if key not in self._resembling:
            texts = [self.sample(stored).texts for stored in (queries, passages)]
            self._resembling[key] = Resembling(*texts)
        return self._resembling[key]


def outlook_of(stored: Stored) -> Outlook:
    """What a store that is there holds: a sample of its texts or pieces, the lines of its run."""
    produces, facts = stored.spec.produces, _summed(stored)
    sample = run = pieces = None
    if produces in _TEXTS:
        sample = _sampled(stored, _TEXTS[produces])
    elif produces == "queries":
        texts = stored.table(schema.QUERIES)["text"].to_pylist()
        few = np.linspace(0, len(texts) - 1, min(len(texts), MOST_QUERIES)).astype(np.int64)
        sample = Sample([texts[row] for row in few], stored.num_rows)
    elif produces == "tokens":
        parts = [stored.tokens(start, stop) for start, stop in blocks_of(stored.num_rows)]
        pieces = Pieces(*concatenate(parts), 0.0)
    elif produces == "run":
        table = stored.whole_table(schema.RUN)
        rows = table["passage_row"].to_numpy()
        lines = np.bincount(table["query_row"].to_numpy(), minlength=stored.num_rows)
        run = ExpectedRun(
            lines.astype(np.float64),
            stored.num_rows,
            int(rows.max(initial=-1)) + 1,
            stored.num_bytes / max(1, len(table)),
        )
    elif produces == "candidates":
        run, first = _asked(stored)
        facts = {**facts, "first": first}
    return Outlook(
        num_rows=stored.num_rows,
        num_bytes=stored.num_bytes,
        facts=facts,
        sample=sample,
        pieces=pieces,
        run=run,
    )


def _sampled(stored: Stored, columns: pa.Schema) -> Sample:
    """The last column of the rows in the blocks, and the length of the first, their ids."""
    blocks = blocks_of(stored.num_rows)
    made = pa.concat_tables(
        [columns.empty_table(), *(stored.table(columns, start, stop) for start, stop in blocks)]
    )
    return Sample(made[-1].to_pylist(), stored.num_rows, mean_bytes(made[0]))


def _asked(stored: Stored) -> tuple[ExpectedRun, int]:
    """By query the number of first passages of which candidates are made, and the largest."""
    table = stored.whole_table(schema.CANDIDATES)
    of_query = np.unique(table["query_row"].to_numpy(), return_counts=True)[1]
    counts = of_query.astype(np.float64)
    if len(table) and table["other_row"][0].as_py() >= 0:
        counts = (1 + np.sqrt(1 + 4 * counts)) / 2  # n (n - 1) pairs of n passages
    passages = int(table["passage_row"].to_numpy().max(initial=-1)) + 1
    return ExpectedRun(counts, len(counts), passages), round(float(counts.max(initial=0)))


def _summed(stored: Stored) -> dict[str, Json]:
    """The records' facts: integers added up, of anything else the first record's."""
    found: dict[str, Json] = {}
    for record in stored.manifest.records:
        for name, value in record.facts.items():
            number = isinstance(value, int) and not isinstance(value, bool)
            found[name] = found.get(name, 0) + value if number else found.get(name, value)
    return found
