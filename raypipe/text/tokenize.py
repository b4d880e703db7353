"""Word pieces of texts, without special tokens, cut at a limit in bounded time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from raypipe.errors import InputError, first_line

if TYPE_CHECKING:  # its callers have opened a tokenizer
    from tokenizers import Encoding, Tokenizer

CHARACTERS_A_PIECE = 32


def encoded(
    tokenizer: Tokenizer, texts: Sequence[str | tuple[str, str]], *, specials: bool = False
) -> list[Encoding]:
    """The library's encoding of each text or pair of texts.

    Nothing else in raypipe calls the library for it.

    Raises:
        InputError: the library fails, as it does over a pattern that takes too long for a text.
    """
    try:
        return tokenizer.encode_batch_fast(texts, add_special_tokens=specials)
    except BaseException as error:
        if not of_library(error):
            raise
        raise InputError(
            f"the model's tokenizer: the library tokenizers fails over one of {len(texts):,} texts "
            f"({first_line(error)}); put the model's own tokenizer files into its folder"
        ) from error


def of_library(error: BaseException) -> bool:
    """Whether the library raised it: its errors have no class of their own, its panics no base."""
    return type(error) is Exception or type(error).__name__ == "PanicException"


def tokenize_batch(
    tokenizer: Tokenizer, texts: Sequence[str], *, max_pieces: int
) -> tuple[NDArray[np.uint16 | np.uint32], NDArray[np.int64]]:
    """(flat pieces, offsets int64 [N + 1]); uint16 if the vocabulary has fewer than 65,536 entries.

    It equals the first `max_pieces` pieces of the tokenizer's own call on the whole text. A long
    text is first cut at white space, and later in the text if that gave too few pieces.
    """
    dtype = piece_dtype(tokenizer)
    least = max_pieces * CHARACTERS_A_PIECE
    cut = [_cut(text, least) for text in texts]
    encodings = encoded(tokenizer, cut)
    pieces = [encoding.ids[:max_pieces] for encoding in encodings]
    for place, text in enumerate(texts):
        if len(cut[place]) < len(text) and len(pieces[place]) < max_pieces:
            pieces[place] = _pieces_of_long(tokenizer, text, max_pieces, 2 * least)
    lengths = [len(p) for p in pieces]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    every = (piece for row in pieces for piece in row)
    flat: NDArray[np.uint16 | np.uint32] = np.fromiter(every, dtype, count=int(offsets[-1]))
    return flat, offsets


def piece_dtype(tokenizer: Tokenizer) -> type[np.uint16] | type[np.uint32]:
    """uint16 if the vocabulary has fewer than 65,536 entries, else uint32."""
    return np.uint16 if tokenizer.get_vocab_size() < 1 << 16 else np.uint32


def _pieces_of_long(tokenizer: Tokenizer, text: str, max_pieces: int, least: int) -> list[int]:
    while True:
        cut = _cut(text, least)
        pieces: list[int] = encoded(tokenizer, [cut])[0].ids
        if len(pieces) >= max_pieces or len(cut) == len(text):
            return pieces[:max_pieces]
        least *= 2


def _cut(text: str, least: int) -> str:
    """The text up to the first space or newline at or after `least`: no piece spans one."""
    if len(text) <= least:
        return text
    ends = [end for end in (text.find(" ", least), text.find("\n", least)) if end >= 0]
    return text[: min(ends)] if ends else text
