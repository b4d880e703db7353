"""Texts as words between which a tokenizer by BERT's rules looks at nothing."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

Int64 = NDArray[np.int64]
Bytes = NDArray[np.uint8]

_LETTER, _SPACE, _MARK = 0, 1, 2
_KIND = np.full(256, _LETTER, np.uint8)
_KIND[list(b" \t\n\r")] = _SPACE
_KIND[list(b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")] = _MARK
"""Of each byte of UTF-8: white space and punctuation of ASCII, all others together."""
_LOWER = np.frombuffer(bytes(range(256)).lower(), np.uint8)


@dataclass(frozen=True, slots=True)
class Rules:
    """What has to be known of a tokenizer to cut a text into words."""

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


def bytes_of(texts: pa.StringArray) -> tuple[Bytes, Int64]:
    """(UTF-8 of all texts, offsets int64 [N + 1]): views of the array's own buffers."""
    assert texts.null_count == 0
    _, ends, data = texts.buffers()
    if data is None or not len(texts):  # an array without texts may have no offsets either
        return np.empty(0, np.uint8), np.zeros(len(texts) + 1, np.int64)
    offsets = np.frombuffer(ends, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    return np.frombuffer(data, np.uint8)[first:last], offsets.astype(np.int64) - first


def rows_with(tokens: tuple[bytes, ...], data: Bytes, offsets: Int64) -> Int64:
    """Texts in which one of the tokens begins, ascending, and some more.

    A token that begins in one text and would end in the next is counted as well.
    """
    whole, found = data.tobytes(), []
    for token in tokens:
        at = whole.find(token)
        while at >= 0:
            found.append(at)
            at = whole.find(token, at + 1)
    return np.unique(np.searchsorted(offsets, found, side="right") - 1)


def lowered(data: Bytes) -> Bytes:
    """A to Z as a to z, all other bytes as they are."""
    found: Bytes = _LOWER[data]
    return found


def words_of(data: Bytes, offsets: Int64) -> Words:
    """The words of texts, from `bytes_of`: runs of letters, and punctuation one by one.

    A word holds no white space or punctuation of ASCII, or is one such punctuation character. What
    else it holds (accents, Chinese, control characters) is for the tokenizer to cut.
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
