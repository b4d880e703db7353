"""Word pieces of many texts: each different word is tokenised once."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tokenizers import Tokenizer

from raypipe.storage.payloads.tokens import Flat, Offsets, concatenate, taken
from raypipe.text.batching import spans
from raypipe.text.memo import Memo
from raypipe.text.tokenize import piece_dtype, tokenize_batch
from raypipe.text.words import Bytes, bytes_of, lowered, rows_with, rules_of, words_of

SLICE_BYTES = 1 << 20
"""UTF-8 that is cut into words at a time; that takes up to 60 times the memory."""
LONG_BYTES = 1 << 16
"""A longer text goes to the tokenizer, which is given its beginning first."""


class WordPieces:
    """A tokenizer that remembers words. It serves one thread, and its memory is freed with it."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """A tokenizer of other rules than BERT's does all the work itself; see `rules_of`."""
        self._tokenizer, self._rules = tokenizer, rules_of(tokenizer)
        self._memo = Memo(tokenizer, piece_dtype(tokenizer))

    def of(
        self, texts: pa.StringArray | pa.ChunkedArray, *, max_pieces: int
    ) -> tuple[Flat, Offsets]:
        """What `tokenize_batch` returns for these texts, bit by bit, in less time."""
        if self._rules is None:
            return tokenize_batch(self._tokenizer, texts.to_pylist(), max_pieces=max_pieces)
        empty = tokenize_batch(self._tokenizer, [], max_pieces=max_pieces)
        chunks = texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]
        parts = [self._of_slice(part, max_pieces) for chunk in chunks for part in _slices(chunk)]
        return concatenate([empty, *parts])

    def _of_slice(self, texts: pa.StringArray, max_pieces: int) -> tuple[Flat, Offsets]:
        assert self._rules is not None
        data, offsets = bytes_of(texts)
        long = np.diff(offsets) > LONG_BYTES
        if long.any():
            return self._of_both(texts, long, max_pieces)
        data = lowered(data) if self._rules.lower else data
        marked = rows_with(self._rules.whole, data, offsets)
        if len(marked):
            whole = np.zeros(len(texts), bool)
            whole[marked] = True
            return self._of_both(texts, whole, max_pieces)
        return _first(*self._of_words(data, offsets), max_pieces)

    def _of_both(
        self, texts: pa.StringArray, whole: NDArray[np.bool_], max_pieces: int
    ) -> tuple[Flat, Offsets]:
        """The pieces of texts that stay whole, and of the others, in the order of the texts."""
        parts = [
            self._of_slice(texts.filter(pa.array(~whole)), max_pieces),
            tokenize_batch(
                self._tokenizer, texts.filter(pa.array(whole)).to_pylist(), max_pieces=max_pieces
            ),
        ]
        places = np.argsort(np.argsort(whole, kind="stable"))
        return taken(*concatenate(parts), places)

    def _of_words(self, data: Bytes, offsets: Offsets) -> tuple[Flat, Offsets]:
        words, memo = words_of(data, offsets), self._memo
        rows = memo.rows(words.distinct)[words.places]
        counts = memo.counts[rows]
        ends = np.concatenate([[0], np.cumsum(counts)])
        source = np.arange(ends[-1]) + np.repeat(memo.starts[rows] - ends[:-1], counts)
        return memo.flat[source], ends[words.ends]


def _slices(texts: pa.StringArray) -> Iterator[pa.StringArray]:
    """The texts in order, SLICE_BYTES at a time or a single longer one."""
    for start, stop in spans(np.diff(bytes_of(texts)[1]), SLICE_BYTES):
        yield texts.slice(start, stop - start)


def _first(flat: Flat, offsets: Offsets, max_pieces: int) -> tuple[Flat, Offsets]:
    """The first pieces of each row."""
    counts = np.diff(offsets)
    if counts.max(initial=0) <= max_pieces:
        return flat, offsets
    kept = np.minimum(counts, max_pieces)
    places = np.arange(len(flat)) - np.repeat(offsets[:-1], counts)
    return flat[places < max_pieces], np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
