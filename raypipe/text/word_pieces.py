"""Word pieces of many texts: each different word is tokenised once.

The memory for words is bounded. Texts are cut into words between which a tokenizer by BERT's rules
looks at nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from raypipe.storage.payloads import Flat, Offsets, concatenate, taken
from raypipe.text.batches import spans
from raypipe.text.tokenize import encoded, piece_dtype, tokenize_batch
from raypipe.text.utf8 import Utf8, bytes_of

Int64 = NDArray[np.int64]
Bytes = NDArray[np.uint8]

_LETTER, _SPACE, _MARK = 0, 1, 2
_KIND = np.full(256, _LETTER, np.uint8)
_KIND[list(b" \t\n\r")] = _SPACE
_KIND[list(b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")] = _MARK
"""Kind of each byte of UTF-8: white space and punctuation of ASCII, all others together."""
_LOWER = np.frombuffer(bytes(range(256)).lower(), np.uint8)


@dataclass(frozen=True, slots=True)
class Rules:
    """The facts about a tokenizer that are needed to cut a text into words."""

    lower: bool
    """Whether the letters A to Z mean a to z."""
    whole: tuple[bytes, ...]
    """Tokens found in the text before it is cut, such as [SEP]; a text with one stays whole. They
    are lower-cased if texts are."""


@dataclass(frozen=True, slots=True)
class Words:
    """The words of N texts, W in all, D of them different."""

    distinct: list[bytes]
    """Each word once, [D]."""
    places: NDArray[np.int32]
    """The place in `distinct` of each text's words, in order, [W]."""
    ends: Int64
    """Text i has the words `places[ends[i]:ends[i + 1]]`, [N + 1]."""


def rules_of(tokenizer: Tokenizer) -> Rules | None:
    """How the tokenizer's texts can be cut; None if it is not known to keep words apart.

    BERT's normaliser drops control characters and accents, lower-cases characters, and decomposes
    them by a table (NFD, which reorders combining marks alone). None of this looks across a space,
    tab, newline or punctuation character of ASCII, and its pre-tokenizer cuts at each of them. So
    the pieces of a text are those of its words, one after the other. An added token is looked for
    before all this: where that is done in the normalised text, or the token has white space, the
    answer is None.
    """
    normalizer, added = tokenizer.normalizer, tokenizer.get_added_tokens_decoder().values()
    by_words = (
        type(normalizer) is BertNormalizer
        and type(tokenizer.pre_tokenizer) is BertPreTokenizer
        and type(tokenizer.model) is WordPiece
        and tokenizer.truncation is None
        and tokenizer.padding is None
    )
    in_words = [token.content.split() == [token.content] for token in added]
    if not by_words or not all(in_words) or any(token.normalized for token in added):
        return None
    contents = [token.content.encode() for token in added]
    lower = bool(normalizer.lowercase)
    return Rules(lower, tuple(content.lower() if lower else content for content in contents))


def rows_with(tokens: tuple[bytes, ...], data: Bytes, offsets: Int64) -> Int64:
    """Texts in which one of the tokens begins, ascending, and some more.

    A token that begins in one text and would end in the next is counted as well.
    """
    whole, starts = data.tobytes(), []
    for token in tokens:
        at = whole.find(token)
        while at >= 0:
            starts.append(at)
            at = whole.find(token, at + 1)
    return np.unique(np.searchsorted(offsets, starts, side="right") - 1)


def lowered(data: Bytes) -> Bytes:
    """A to Z as a to z, all other bytes as they are."""
    found: Bytes = _LOWER[data]
    return found


def words_of(data: Bytes, offsets: Int64) -> Words:
    """The words of texts, from `bytes_of`: runs of letters, and punctuation one by one.

    A word holds no white space or punctuation of ASCII, or is one such punctuation character. The
    tokenizer cuts it further at other characters (accents, Chinese, control characters).
    """
    kinds = _KIND[data]
    is_letter, is_space = kinds == _LETTER, kinds == _SPACE
    goes_on = np.zeros(len(data) + 1, bool)
    goes_on[1:] = is_letter
    goes_on[offsets] = False
    begins = ~(is_space | (is_letter & goes_on[:-1]))
    kept = ~is_space
    letters = data[kept]
    edges = np.append(np.flatnonzero(begins[kept]), len(letters)).astype(np.int32)
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(letters)]
    words = pa.Array.from_buffers(pa.binary(), len(edges) - 1, buffers).dictionary_encode()
    ends = np.searchsorted(np.flatnonzero(begins), offsets)
    return Words(words.dictionary.to_pylist(), words.indices.to_numpy(), ends)


MEMO_BYTES = 1 << 25
"""Memory after which a memo forgets all words and begins anew: about 200,000 words of English."""
WORD_BYTES = 150
"""The memory that Python and numpy need for a word, beside its letters and pieces."""
TOGETHER = 64
"""Number of new words that the tokenizer gets as one text."""
_BETWEEN = ","
NOTHING = -1
"""No piece's id."""


class Memo:
    """Words and their pieces. Row r has the pieces `flat[starts[r]:starts[r] + counts[r]]`."""

    def __init__(self, tokenizer: Tokenizer, dtype: type[np.uint16] | type[np.uint32]) -> None:
        """It knows no word yet; `dtype` holds every id."""
        self._tokenizer, self._dtype = tokenizer, dtype
        self._of_comma = self._encoded([_BETWEEN])[0]
        self._between = int(self._of_comma[0]) if len(self._of_comma) == 1 else NOTHING
        self._forget()

    def rows(self, words: Sequence[bytes]) -> Int64:
        """The row of each of these different words, int64 [D]; until the next call.

        New words are tokenised. The memo stays below MEMO_BYTES and one call's words.
        """
        if self._held > MEMO_BYTES:
            self._forget()
        rows = np.fromiter(map(self._rows.get, words, repeat(-1)), np.int64, count=len(words))
        new = np.flatnonzero(rows < 0)
        if len(new):
            rows[new] = self._learn([words[place] for place in new.tolist()])
        return rows

    def _forget(self) -> None:
        """Know the comma alone, which could not be told from those between words."""
        self._rows = {_BETWEEN.encode(): 0}
        self.flat: Flat = self._of_comma
        self.counts = np.array([len(self._of_comma)], np.int64)
        self.starts = np.zeros(1, np.int64)
        self._held = 0

    def _learn(self, words: list[bytes]) -> Int64:
        """The rows of new words."""
        flat, counts = self._pieces(words)
        rows = range(len(self._rows), len(self._rows) + len(words))
        self._rows.update(zip(words, rows, strict=True))
        self.flat = np.concatenate([self.flat, flat])
        self.counts = np.concatenate([self.counts, counts])
        self.starts = np.cumsum(self.counts) - self.counts
        self._held += sum(map(len, words)) + WORD_BYTES * len(words) + flat.nbytes
        return np.array(rows, np.int64)

    def _pieces(self, words: list[bytes]) -> tuple[Flat, Int64]:
        """(flat pieces, number of each word's pieces).

        Texts of several words cost the library half as much as words. Commas separate them, and
        there must be as many as were put in: then none is a word's own piece.
        """
        groups = [words[i : i + TOGETHER] for i in range(0, len(words), TOGETHER)]
        texts = [b" , ".join([*group, b""]).decode() for group in groups]
        flats, counts = [], []
        for group, flat in zip(groups, self._encoded(texts), strict=True):
            ends = np.flatnonzero(flat == self._between)
            if len(ends) == len(group):
                flats.append(flat[flat != self._between])
                counts.append(np.diff(ends, prepend=-1) - 1)
            else:
                alone = self._encoded([word.decode() for word in group])
                flats += alone
                counts.append(np.array([len(ids) for ids in alone], np.int64))
        return np.concatenate(flats), np.concatenate(counts)

    def _encoded(self, texts: list[str]) -> list[Flat]:
        found = encoded(self._tokenizer, texts)
        return [np.array(encoding.ids, self._dtype) for encoding in found]


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
        """The result of `tokenize_batch` for these texts, bit by bit, in less time."""
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


def word_pieces_of(tokenizer: Tokenizer | Utf8) -> WordPieces | Utf8:
    """The maker of the word pieces of texts, or UTF-8 in their place."""
    return tokenizer if isinstance(tokenizer, Utf8) else WordPieces(tokenizer)


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
