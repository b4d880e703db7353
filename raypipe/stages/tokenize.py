"""Word pieces of texts: the stage that stores those of a collection, and those of a query set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tokenizers
from numpy.typing import NDArray
from tokenizers import Tokenizer

from raypipe import schema
from raypipe.errors import InputError
from raypipe.models.folder.model_folder import ModelFolder, layout_of, open_tokenizer
from raypipe.models.folder.settings import PairConventions
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
)
from raypipe.storage.payloads import (
    ROW_GROUP_ROWS,
    Flat,
    Offsets,
    concatenate,
    map_tokens,
    read_table,
    taken,
    write_tokens,
)
from raypipe.storage.records import Json, Shard
from raypipe.storage.spec import StageSpec, settings_digest
from raypipe.storage.store import Stored, spec_over
from raypipe.text.inputs import TextSlice

if TYPE_CHECKING:
    from raypipe.stages.reuse.division import Division
    from raypipe.stages.reuse.source import OlderStore, OpenedSource
    from raypipe.text.utf8 import Utf8
    from raypipe.text.word_pieces import WordPieces


Int64 = NDArray[np.int64]
Strings: TypeAlias = "pa.StringArray | pa.ChunkedArray"


class TextReader:
    """Reads the column `text` of a store; the last row group read stays in memory."""

    def __init__(self, stored: Stored, columns: pa.Schema) -> None:
        """Reads nothing yet; `columns` is the schema of the store."""
        self._stored, self._columns = stored, columns
        shards = [record.shard for record in stored.manifest.records]
        groups = [np.arange(shard.start, shard.stop, ROW_GROUP_ROWS) for shard in shards]
        self._starts = np.concatenate([np.empty(0, np.int64), *groups])
        self._held: tuple[int, Strings] = (-1, pa.array([], pa.string()))

    def batches(self, rows: Int64, size: int) -> Iterator[Int64]:
        """The rows, ascending, in parts of at most `size` that lie in one row group each."""
        groups = self._groups(rows)
        edges = np.flatnonzero(np.diff(groups, prepend=-1, append=len(self._starts)))
        for start, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            for first in range(start, stop, size):
                yield rows[first : min(first + size, stop)]

    def texts(self, batch: Int64) -> Strings:
        """The texts of some rows of one row group, in the order given."""
        group = int(self._groups(batch[:1])[0])
        if group != self._held[0]:
            self._held = (group, self._read(int(self._starts[group])))
        return self._held[1].take(pa.array(batch - self._starts[group]))

    def _groups(self, rows: Int64) -> Int64:
        return np.searchsorted(self._starts, rows, side="right") - 1

    def _read(self, start: int) -> Strings:
        record, first, _ = next(self._stored.overlapping(start, start + 1))
        path = self._stored.path(record)
        stop = first + ROW_GROUP_ROWS
        return read_table(path, self._columns, start=first, stop=stop, columns=["text"])["text"]


BATCH_ROWS = 2048
SHARD_ROWS = 16_384
"""About three seconds of work."""
SAMPLED_TEXTS = 1000


@dataclass(frozen=True)
class TokenizeStage(Stage):
    """Word pieces of every row's text, without special tokens."""

    texts: Stored
    schema: pa.Schema
    model: ModelFolder
    prefix: str = ""
    hashes: Stored | None = None
    """Of the texts of a collection; None for queries, whose rows are never copied."""
    source: OlderStore | None = None

    @property
    def spec(self) -> StageSpec:
        """The texts, the tokenizer and its library, the limit."""
        params = piece_settings(self.model, self.prefix)
        stores, reuse_key = {"texts": self.texts}, settings_digest("tokenize", 2, params)
        return spec_over("tokenize", 2, params, stores, produces="tokens", reuse_key=reuse_key)

    def shards(self, sizing: Sizing) -> list[Shard]:
        """Ranges of rows that begin where the content says; see shards_by_content."""
        from raypipe.stages.reuse.boundaries import shards_by_content

        work = min(sizing.shard_rows, SHARD_ROWS)
        return shards_by_content(self.texts.num_rows, work, self.hashes)

    def weights_of(self, shards: Sequence[Shard]) -> list[float]:
        """The work of each shard: its bytes of text."""
        from raypipe.stages.reuse.boundaries import spread

        return spread(self.texts, lambda record: record.num_bytes, shards)

    def reusing(self, older: Sequence[Stored]) -> TokenizeStage:
        """This stage, copying rows from older stores."""
        from raypipe.stages.reuse.source import source_over

        return replace(self, source=source_over(older, self.hashes, "texts"))

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """The estimated bytes of the payload of these rows."""
        whole = self.texts.num_bytes + 8 * self.texts.num_rows
        return whole * num_rows // max(1, num_planned)

    def expected(self, expectations: Expectations) -> Expected:
        """An estimate: the pieces of a sample of the texts."""
        from raypipe.stages.reuse.boundaries import expected_shards

        work = min(expectations.sizing.shard_rows, SHARD_ROWS)
        shards = expected_shards(self.texts.num_rows, work, self.hashes, expectations)
        return expected_pieces(expectations, self.texts, self.model, self.prefix, shards)

    def open(self, site: Site) -> Opened:
        """Open it: pieces of a shard's rows, uint16 or uint32 flat with offsets."""
        from raypipe.stages.reuse.source import OpenedSource
        from raypipe.text.word_pieces import word_pieces_of

        tokenizer = open_tokenizer(self.model)
        self._check_slicing(tokenizer)
        source = None if self.source is None else OpenedSource(self.source)
        word_pieces, reader = word_pieces_of(tokenizer), TextReader(self.texts, self.schema)
        run = partial(self._run, word_pieces, reader, source, site.scratch)
        return Opened(run, {"tokenizers": tokenizers.__version__})

    def _check_slicing(self, tokenizer: Tokenizer) -> None:
        """Compare inputs made from pieces with the tokenizer's own, on 1,000 texts.

        Raises:
            InputError: they differ: this tokenizer's inputs cannot be sliced from pieces.
        """
        step = -(-self.texts.num_rows // SAMPLED_TEXTS)
        for start in range(0, self.texts.num_rows, max(1, step * 100)):
            stop = min(start + step * 100, self.texts.num_rows)
            texts = self.texts.table(self.schema, start, stop)["text"].to_pylist()[::step]
            refuse_other_inputs(tokenizer, texts, self.model)

    def _run(
        self,
        word_pieces: WordPieces | Utf8,
        reader: TextReader,
        source: OpenedSource | None,
        scratch: Path,
        shard: Shard,
        skip: Rows,
        beat: Beat,
    ) -> Payload:
        from raypipe.stages.reuse.division import divide, same_payload

        same = None if source is None else source.whole(shard)
        if source is not None and same is not None:
            return same_payload(same, source.path(same), scratch, shard)
        rows = np.arange(shard.start, shard.stop)
        division = divide(rows, None, None if source is None else source.rows(rows))
        texts = _texts(reader, rows[division.computed], beat)
        parts = [*pieces_of(word_pieces, texts, self.model, self.prefix)]
        if source is not None:
            parts = [*copied_pieces(source, division), *parts]
        flat, offsets = taken(*concatenate(parts), division.places)
        path = scratch / f"{shard.index}.safetensors"
        write_tokens(path, flat, offsets)
        facts = {"rows": shard.num_rows, "pieces": len(flat)}
        return Payload(path, facts, division.num_copied)


def expected_pieces(
    expectations: Expectations,
    texts: Stored,
    model: ModelFolder,
    prefix: str,
    shards: Sequence[Shard],
) -> Expected:
    """Pieces of texts like the sampled ones: a piece takes 2 or 4 bytes, a row an offset of 8."""
    pieces, seconds = expectations.pieces(texts, model, prefix)
    num_rows = sum(shard.num_rows for shard in shards)
    num_pieces = round(num_rows * float(pieces.counts.mean())) if len(pieces.counts) else 0
    return Expected(
        shards=shards,
        num_bytes=pieces.flat.itemsize * num_pieces + 8.0 * num_rows,
        seconds=seconds * num_rows,
        facts={"pieces": num_pieces},
        pieces=pieces,
    )


def _texts(reader: TextReader, rows: Int64, beat: Beat) -> Iterator[Strings]:
    """Batches of the texts of these rows, ascending."""
    for batch in reader.batches(rows, BATCH_ROWS):
        beat(batch.tolist())
        yield reader.texts(batch)


def piece_settings(model: ModelFolder, prefix: str) -> dict[str, Json]:
    """All settings on which the word pieces of a text depend."""
    settings = model.conventions
    return {
        "first_tokenizer": isinstance(settings, PairConventions) and settings.first_tokenizer,
        "tokenizer_sha256": model.tokenizer_sha256,
        "tokenizers": tokenizers.__version__,
        "max_pieces": model.max_pieces,
        "prefix": prefix,
    }


def pieces_of(
    word_pieces: WordPieces | Utf8, batches: Iterable[Strings], model: ModelFolder, prefix: str
) -> Iterator[tuple[Flat, Offsets]]:
    """The word pieces of each batch of texts; first those of no text, which have the dtype.

    A text is cut after as many as the model's inputs hold, to save time.
    """
    yield word_pieces.of(pa.array([], pa.string()), max_pieces=model.max_pieces)
    for texts in batches:
        prefixed = pc.binary_join_element_wise(prefix, texts, "") if prefix else texts
        yield word_pieces.of(prefixed, max_pieces=model.max_pieces)


def copied_pieces(source: OpenedSource, division: Division) -> Iterator[tuple[Flat, Offsets]]:
    """The older word pieces of the copied rows, in the order of `division.copied`."""
    for record, rows in source.by_record(division.copied):
        yield taken(*map_tokens(source.path(record)), rows)


def refuse_other_inputs(tokenizer: Tokenizer, texts: list[str], model: ModelFolder) -> None:
    """Returns nothing if inputs sliced from pieces equal the tokenizer's own.

    Raises:
        InputError: they differ; the message names the text.
    """
    from raypipe.text.prompts import first_difference

    if model.by_library:
        return
    single = layout_of(model, tokenizer, (0,))
    has_pairs = model.conventions.kind in ("mono", "pretrained")
    pair = layout_of(model, tokenizer, (0, 1)) if has_pairs else None
    text = first_difference(tokenizer, texts, single, pair)
    if text is not None:
        (after,) = single.behind
        first, last = (
            [str(tokenizer.id_to_token(n)) for n in ids] for ids in (single.before, after)
        )
        shown = " ".join([*first, "pieces", *last])
        of_pair = "" if pair is None else f" (of a pair, with segments {pair.segments})"
        raise InputError(
            f"{model.folder}: the tokenizer's own input for {text[:60]!r} is not {shown}"
            f"{of_pair}, which is what this model would be given"
        )


@dataclass(frozen=True)
class QueryTokens:
    """Word pieces of every query, without special tokens, made when they are first read.

    A stage that is sent to workers takes along what the driver made to plan its shards.
    """

    queries: Stored
    model: ModelFolder

    @property
    def settings(self) -> dict[str, Json]:
        """All settings on which they depend, for a spec that names the queries."""
        return piece_settings(self.model, self.model.prefix("query"))

    @property
    def num_rows(self) -> int:
        """Number of queries."""
        return self.queries.num_rows

    def tokens(self, start: int, stop: int) -> tuple[Flat, Offsets]:
        """The pieces of queries [start, stop): flat and offsets int64 [stop - start + 1]."""
        flat, offsets = self._pieces
        part = offsets[start : stop + 1]
        return flat[part[0] : part[-1]], part - part[0]

    def part(self, rows: NDArray[np.int64]) -> TextSlice:
        """The pieces of these rows, in order, as one text of each input."""
        flat, offsets = self._pieces
        return TextSlice(flat, offsets[rows], offsets[rows + 1] - offsets[rows])

    @cached_property
    def _pieces(self) -> tuple[Flat, Offsets]:
        texts = self.queries.table(schema.QUERIES)["text"].to_pylist()
        return tokenized(open_tokenizer(self.model), self.model, texts, "query")


def num_pieces(tokens: Stored | QueryTokens) -> int:
    """The number of pieces of all rows."""
    if isinstance(tokens, QueryTokens):
        return len(tokens.tokens(0, tokens.num_rows)[0])
    return sum(int(record.facts["pieces"]) for record in tokens.manifest.records)


def tokenized(
    tokenizer: Tokenizer, model: ModelFolder, texts: Sequence[str], side: str
) -> tuple[Flat, Offsets]:
    """The word pieces that a tokenize stage would store, after its check of 1,000 texts.

    Raises:
        InputError: see refuse_other_inputs.
    """
    from raypipe.text.word_pieces import word_pieces_of

    refuse_other_inputs(tokenizer, list(texts[:: -(-len(texts) // SAMPLED_TEXTS) or 1]), model)
    prefix = model.prefix(side)
    starts = range(0, len(texts), BATCH_ROWS)
    batches = (pa.array(texts[start : start + BATCH_ROWS], pa.string()) for start in starts)
    return concatenate([*pieces_of(word_pieces_of(tokenizer), batches, model, prefix)])
