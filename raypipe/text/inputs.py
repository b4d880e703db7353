"""Makes a model's inputs from word pieces: flat, without padding, in its family's layout.

Texts are slices of word pieces, and limits cut the texts of a reranker's input.
"""

from collections.abc import Mapping, Sequence
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


class PairLimits(Protocol):
    """The limits of `piece_counts`, in a reranker's settings."""

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
    limits: PairLimits, query: TextSlice, passages: Sequence[TextSlice], *, num_specials: int
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


@dataclass(frozen=True, slots=True)
class Layout:
    """How texts become one input: `first` text `separators` text ... text `last`."""

    first: int | None
    """Token id before the first text; None if there is none, as in Qwen's."""
    separators: tuple[int, ...]
    """Token ids between two texts: one, or the two of RoBERTa."""
    last: int | None
    """Token id after the last text; None if there is none."""
    segments: tuple[int, ...]
    """Segment of each text and of the tokens after it; `first` has that of the first text. Zeros if
    a family has one segment or none."""
    first_position: int = 0
    """Position of the first token: 0, or the 2 of RoBERTa, which counts from its padding's id on. A
    piece that is the padding, such as a `<pad>` in a text, has that id as its position there, and
    is not counted."""
    has_segments: bool = True
    """Whether the model reads segments; otherwise a tokenizer may give others."""

    @property
    def before(self) -> tuple[int, ...]:
        """Token ids before the first text."""
        return () if self.first is None else (self.first,)

    @property
    def behind(self) -> tuple[tuple[int, ...], ...]:
        """Token ids after each text."""
        last = () if self.last is None else (self.last,)
        return (self.separators,) * (len(self.segments) - 1) + (last,)

    @property
    def num_specials(self) -> int:
        """Number of tokens in an input that are no text's."""
        return len(self.before) + sum(map(len, self.behind))

    def lengths(self, counts: Sequence[Int64]) -> Int64:
        """Tokens of inputs, with special tokens, from the pieces of their texts, int64 [B] each."""
        total: Int64 = np.sum(counts, axis=0) + self.num_specials
        return total


Layouts = Mapping[str, Layout]
"""All layouts of one model: an encoder's `query` and `passage`, or a reranker's `pair`."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """B sequences one after the other; `lengths`, int64 [B], sums to T."""

    ids: Int64
    """Token ids [T]."""
    positions: Int64
    """Positions within the sequence, from the layout's first, [T]."""
    segments: Int64
    """Segment ids [T]."""
    lengths: Int64


def make_inputs(texts: Sequence[TextSlice], layout: Layout) -> Inputs:
    """The inputs of B rows, in order; a text without pieces leaves only its special tokens.

    Args:
        texts: the first texts of all inputs, then the second ones, and so on: one entry per segment
            of the layout, each with B rows.
        layout: special tokens, segments and positions.
    """
    assert len(texts) == len(layout.segments)
    lengths = layout.lengths([text.counts for text in texts])
    starts = np.cumsum(lengths) - lengths
    total = int(lengths.sum())
    ids = np.empty(total, np.int64)
    at = starts
    for token in layout.before:
        ids[at] = token
        at = at + 1
    for text, closing in zip(texts, layout.behind, strict=True):
        _copy(text, ids, at)
        at = at + text.counts
        for token in closing:
            ids[at] = token
            at = at + 1
    positions = _positions(ids, starts, lengths, layout.first_position)
    return Inputs(ids, positions, _segments(texts, layout, total), lengths)


def _positions(ids: Int64, starts: Int64, lengths: Int64, first: int) -> Int64:
    """The position of each token, int64 [T]; see Layout."""
    if not first:
        return np.arange(len(ids)) - np.repeat(starts, lengths)
    counted = ids != first - 1
    so_far = np.cumsum(counted)
    before = np.repeat(so_far[starts] - counted[starts], lengths)
    return first - 1 + np.where(counted, so_far - before, 0)


def _copy(text: TextSlice, ids: Int64, at: Int64) -> None:
    """Copy each row's pieces into `ids`, from `at`, int64 [B], on."""
    before = np.cumsum(text.counts) - text.counts
    steps = np.arange(int(text.counts.sum()))
    source = steps + np.repeat(text.starts - before, text.counts)
    ids[steps + np.repeat(at - before, text.counts)] = text.flat[source]


def _segments(texts: Sequence[TextSlice], layout: Layout, total: int) -> Int64:
    if len(set(layout.segments)) == 1:
        return np.full(total, layout.segments[0], np.int64)
    both = zip(texts, layout.behind, strict=True)
    widths = [text.counts + len(closing) for text, closing in both]
    widths[0] = widths[0] + len(layout.before)
    each = np.tile(np.array(layout.segments, np.int64), len(widths[0]))
    return np.repeat(each, np.stack(widths, axis=1).reshape(-1))


def by_length(parts: Sequence[Inputs]) -> tuple[Inputs, Int64]:
    """Inputs of several layouts as one batch, the shortest first, and their order, int64 [B].

    `order[i]` is the number, over all parts, of the sequence at position i; equal lengths keep
    their order. A group of equal lengths needs no padding.
    """
    lengths = np.concatenate([part.lengths for part in parts])
    order = np.argsort(lengths, kind="stable")
    starts = (np.cumsum(lengths) - lengths)[order]
    lengths = lengths[order]
    before = np.cumsum(lengths) - lengths
    source = np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)
    ids = np.concatenate([part.ids for part in parts])[source]
    positions = np.concatenate([part.positions for part in parts])[source]
    segments = np.concatenate([part.segments for part in parts])[source]
    return Inputs(ids, positions, segments, lengths), order
