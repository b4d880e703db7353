"""Texts as slices of word pieces, and how limits cut the texts of a reranker's input."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

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
    """Number of pieces, [B]."""


def taken(text: TextSlice, rows: Int64) -> TextSlice:
    """The texts of some inputs, in the order of `rows`, int64 [N]; nothing is copied."""
    return TextSlice(text.flat, text.starts[rows], text.counts[rows])


class Limits(Protocol):
    """Those of `piece_counts`, in a reranker's settings."""

    @property
    def query_limit(self) -> int | None:
        """Pieces of a query."""

    @property
    def passage_limit(self) -> int | None:
        """Pieces of each passage."""

    @property
    def total_limit(self) -> int:
        """Tokens of the input."""


def cut_to(
    limits: Limits, query: TextSlice, passages: Sequence[TextSlice], *, num_specials: int
) -> list[TextSlice]:
    """The query and the passages as an input keeps them; see `piece_counts`."""
    kept, rest = piece_counts(
        query.counts,
        [passage.counts for passage in passages],
        query_limit=limits.query_limit,
        passage_limit=limits.passage_limit,
        total_limit=limits.total_limit,
        num_specials=num_specials,
    )
    texts = zip([query, *passages], [kept, *rest], strict=True)
    return [replace(text, counts=counts) for text, counts in texts]


def piece_counts(
    query: Int64,
    passages: Sequence[Int64],
    *,
    query_limit: int | None,
    passage_limit: int | None,
    total_limit: int,
    num_specials: int,
) -> tuple[Int64, list[Int64]]:
    """The number of pieces of each text that an input keeps, int64 [B] each.

    Args:
        query: number of pieces of each query, [B].
        passages: number of pieces of each passage, [B]: one array (monoBERT) or two (duoBERT).
        query_limit: pieces of a query; None cuts the longer of query and passage, and the passage
            if both are equally long, as tokenizers' `longest_first` does (monoBERT only).
        passage_limit: pieces of each passage; None means equal shares of what is left, rounded
            down.
        total_limit: tokens of the input, with special tokens.
        num_specials: number of special tokens in the input's layout.

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
    """The lengths of both texts, cut as if piece by piece from the longer one."""
    shorter = np.minimum(query, passage)
    half = room // 2
    fits = query + passage <= room
    # The shorter text stays whole while the other can be cut; otherwise both get half the room.
    short_kept = np.where(shorter <= half, shorter, half)
    long_kept = room - short_kept
    query_is_short = query <= passage
    query_kept = np.where(query_is_short, short_kept, long_kept)
    passage_kept = np.where(query_is_short, long_kept, short_kept)
    return np.where(fits, query, query_kept), [np.where(fits, passage, passage_kept)]
