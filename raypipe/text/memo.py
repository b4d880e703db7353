"""Word pieces of words that were seen before, in bounded memory."""

from collections.abc import Sequence
from itertools import repeat

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from raypipe.text.tokenize import encoded

Int64 = NDArray[np.int64]
Flat = NDArray[np.uint16 | np.uint32]

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

        New words are tokenised. What is held stays below MEMO_BYTES and one call's words.
        """
        if self._held > MEMO_BYTES:
            self._forget()
        found = np.fromiter(map(self._rows.get, words, repeat(-1)), np.int64, count=len(words))
        new = np.flatnonzero(found < 0)
        if len(new):
            found[new] = self._learn([words[place] for place in new.tolist()])
        return found

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
        for group, found in zip(groups, self._encoded(texts), strict=True):
            ends = np.flatnonzero(found == self._between)
            if len(ends) == len(group):
                flats.append(found[found != self._between])
                counts.append(np.diff(ends, prepend=-1) - 1)
            else:
                alone = self._encoded([word.decode() for word in group])
                flats += alone
                counts.append(np.array([len(ids) for ids in alone], np.int64))
        return np.concatenate(flats), np.concatenate(counts)

    def _encoded(self, texts: list[str]) -> list[Flat]:
        found = encoded(self._tokenizer, texts)
        return [np.array(encoding.ids, self._dtype) for encoding in found]
