"""Texts as slices of word pieces, and how limits cut those of a reranker's input."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]
Flat = NDArray[np.uint16 | np.uint32]


@dataclass(frozen=True, slots=True)
class TextSlice:
    """One text of each of B inputs: `flat[starts[i]:starts[i] + counts[i]]`."""

    flat: Flat
    starts: Int64
    """[B]"""
    counts: Int64
    """Pieces taken, [B]."""


def taken(text: TextSlice, rows: Int64) -> TextSlice:
    """The texts of some inputs, in the order of `rows`, int64 [N]; nothing is copied."""
    return TextSlice(text.flat, text.starts[rows], text.counts[rows])


def piece_counts(
    query: Int64,
    passages: Sequence[Int64],
    *,
    query_limit: int | None,
    passage_limit: int | None,
    total_limit: int,
    num_specials: int,
) -> tuple[Int64, list[Int64]]:
    """How many pieces of each text an input keeps, int64 [B] each.

    Args:
        query: pieces each query has, [B].
        passages: pieces each passage has, [B], one array (mono) or two (duo).
        query_limit: pieces of a query; None: query and passage are cut from the longer one, the
            passage where both are equally long, as tokenizers' `longest_first` does (mono only).
        passage_limit: pieces of each passage; None: equal shares of what is left, rounded down.
        total_limit: tokens of the input, its specials counted.
        num_specials: of the input, as its layout has them.

    Source: with numbers, Nogueira & Cho 2019 (64, None, 512) and Nogueira et al. 2019
    (62, 223, 512); their code: (62, None, 511) and (62, None, 510).
    """
    room = total_limit - num_specials
    if query_limit is None:
        assert len(passages) == 1 and passage_limit is None
        return _longest_first(query, passages[0], room)
    kept = np.minimum(query, query_limit)
    share = (room - kept) // len(passages)
    if passage_limit is not None:
        share = np.minimum(share, passage_limit)
    return kept, [np.minimum(passage, share) for passage in passages]


def _longest_first(query: Int64, passage: Int64, room: int) -> tuple[Int64, list[Int64]]:
    """Both texts cut as if pieces were taken one by one from the longer of them."""
    shorter = np.minimum(query, passage)
    half = room // 2
    fits = query + passage <= room
    # The shorter one stays whole while the other can give way; else both end at half the room.
    short_kept = np.where(shorter <= half, shorter, half)
    long_kept = room - short_kept
    query_is_short = query <= passage
    query_kept = np.where(query_is_short, short_kept, long_kept)
    passage_kept = np.where(query_is_short, long_kept, short_kept)
    return np.where(fits, query, query_kept), [np.where(fits, passage, passage_kept)]
