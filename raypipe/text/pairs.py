"""Inputs of rerankers sliced from word pieces: a query and one or two passages, no padding."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]
Flat = NDArray[np.uint16 | np.uint32]


@dataclass(frozen=True, slots=True)
class Part:
    """One text of each of B inputs: `flat[starts[i]:starts[i] + counts[i]]`."""

    flat: Flat
    starts: Int64
    """[B]"""
    counts: Int64
    """Pieces taken, [B]."""


def taken(part: Part, rows: Int64) -> Part:
    """The texts of some inputs, in the order of `rows`, int64 [N]; nothing is copied."""
    return Part(part.flat, part.starts[rows], part.counts[rows])


@dataclass(frozen=True, slots=True)
class PackedPairs:
    """Sequences one after the other; `lengths` int64 [B] sums to T."""

    ids: Int64
    """Token ids [T]."""
    positions: Int64
    """Position within its sequence, from 0, [T]."""
    segments: Int64
    """0 for [CLS] query [SEP], 1 for the first passage and its [SEP], 2 for the second, [T]."""
    lengths: Int64


def piece_counts(
    query: Int64,
    passages: Sequence[Int64],
    *,
    query_limit: int | None,
    passage_limit: int | None,
    total_limit: int,
) -> tuple[Int64, list[Int64]]:
    """How many pieces of each text an input keeps, int64 [B] each.

    Args:
        query: pieces each query has, [B].
        passages: pieces each passage has, [B], one array (mono) or two (duo).
        query_limit: pieces of a query; None: query and passage are cut from the longer one, the
            passage where both are equally long, as tokenizers' `longest_first` does (mono only).
        passage_limit: pieces of each passage; None: equal shares of what is left, rounded down.
        total_limit: tokens of the input, its specials counted.

    Source: with numbers, Nogueira & Cho 2019 (64, None, 512) and Nogueira et al. 2019
    (62, 223, 512); their code: (62, None, 511) and (62, None, 510).
    """
    room = total_limit - 2 - len(passages)
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


def input_lengths(parts: Sequence[Part]) -> Int64:
    """Tokens of each input of these parts, specials counted, int64 [B]."""
    total: Int64 = np.sum([part.counts + 1 for part in parts], axis=0) + 1
    return total


def pair_inputs(query: Part, passages: Sequence[Part], *, cls_id: int, sep_id: int) -> PackedPairs:
    """`[CLS] query [SEP] passage [SEP]`, and with two passages another `passage [SEP]`."""
    parts = [query, *passages]
    lengths = input_lengths(parts)
    ends = np.cumsum(lengths)
    starts = ends - lengths
    total = int(ends[-1]) if len(ends) else 0
    ids = np.full(total, sep_id, np.int64)
    segments = np.zeros(total, np.int64)
    ids[starts] = cls_id
    at = starts + 1
    for segment, part in enumerate(parts):
        places = _ranges(at, part.counts)
        ids[places] = part.flat[_ranges(part.starts, part.counts)]
        segments[_ranges(at, part.counts + 1)] = segment
        at = at + part.counts + 1
    positions = np.arange(total) - np.repeat(starts, lengths)
    return PackedPairs(ids, positions, segments, lengths)


def _ranges(starts: Int64, counts: Int64) -> Int64:
    """`starts[i] ... starts[i] + counts[i] - 1` for every i, one after the other."""
    before = np.cumsum(counts) - counts
    places: Int64 = np.arange(int(counts.sum())) + np.repeat(starts - before, counts)
    return places
