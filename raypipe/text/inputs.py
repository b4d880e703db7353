"""Makes a model's inputs from word pieces: flat, without padding, in its family's layout."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from raypipe.text.pairs import TextSlice

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Layout:
    """How texts become one input: `first` text `separators` text ... text `last`."""

    first: int
    """Token id before the first text."""
    separators: tuple[int, ...]
    """Token ids between two texts: one, or the two of RoBERTa."""
    last: int
    """Token id after the last text."""
    segments: tuple[int, ...]
    """Segment of each text and of the tokens after it; `first` has that of the first text. Zeros if
    a family has one segment or none."""
    first_position: int = 0
    """Position of the first token: 0, or the 2 of RoBERTa."""
    has_segments: bool = True
    """Whether the model reads segments; otherwise a tokenizer may give others."""

    @property
    def before(self) -> tuple[int, ...]:
        """Token ids before the first text."""
        return (self.first,)

    @property
    def behind(self) -> tuple[tuple[int, ...], ...]:
        """Token ids after each text."""
        return (self.separators,) * (len(self.segments) - 1) + ((self.last,),)

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
    positions = np.arange(layout.first_position, total + layout.first_position)
    positions -= np.repeat(starts, lengths)
    return Inputs(ids, positions, _segments(texts, layout, total), lengths)


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
