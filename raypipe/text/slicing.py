"""Checks that inputs sliced from word pieces equal those of the tokenizer itself."""

from collections.abc import Sequence
from itertools import chain

import numpy as np
from tokenizers import Tokenizer

from raypipe.text.inputs import Inputs, Layout, make_inputs
from raypipe.text.pairs import TextSlice, taken
from raypipe.text.prompts import PromptLayout
from raypipe.text.tokenize import encoded

ALL = 1 << 40
"""More pieces than any text has."""


def first_difference(
    tokenizer: Tokenizer, texts: Sequence[str], single: Layout, pair: Layout | None = None
) -> str | None:
    """The first text (for pairs, the first two) whose sliced input differs; None if none does.

    It compares the ids of each text alone and, with `pair`, ids and segments of each text with the
    next one, and of the last with the first. A tokenizer without a post-processor makes no inputs
    to compare with. The word pieces are those that stages would store.
    """
    if tokenizer.post_processor is None or not texts:
        return None
    alone = _stored(tokenizer, texts)
    whole = encoded(tokenizer, texts, specials=True)
    made = _rows(make_inputs([alone], single))
    for text, (ids, _), own in zip(texts, made, whole, strict=True):
        if ids != own.ids:
            return text
    if pair is None:
        return None
    both = encoded(tokenizer, list(zip(texts, [*texts[1:], texts[0]], strict=True)), specials=True)
    following = taken(alone, np.roll(np.arange(len(texts)), -1))
    made = _rows(make_inputs([alone, following], pair))
    for text, (ids, segments), own in zip(texts, made, both, strict=True):
        if ids != own.ids or (pair.has_segments and segments != own.type_ids):
            return text
    return None


def first_other_prompt(
    tokenizer: Tokenizer, texts: Sequence[str], layout: PromptLayout
) -> str | None:
    """The first text whose sliced prompt differs from the tokenizer's own; None if none does.

    Each text is the query of the next one, or of the next two; after the last comes the first.
    """
    if not texts:
        return None
    alone, places = _stored(tokenizer, texts), np.arange(len(texts))
    rows = [np.roll(places, -number) for number in range(len(layout.segments))]
    made = _rows(make_inputs([taken(alone, each) for each in rows], layout))
    columns = [[texts[row] for row in each.tolist()] for each in rows]
    filled = [layout.filled(each) for each in zip(*columns, strict=True)]
    whole = encoded(tokenizer, filled, specials=True)
    for text, (ids, _), own in zip(texts, made, whole, strict=True):
        if ids != own.ids:
            return text
    return None


def sliced(tokenizer: Tokenizer, texts: Sequence[Sequence[str]], layout: Layout) -> Inputs:
    """Inputs made from whole texts, one list per position, of equal lengths; none is cut."""
    parts = []
    for column in texts:
        found = encoded(tokenizer, column)
        counts = np.array([len(encoding.ids) for encoding in found], np.int64)
        flat = np.fromiter(chain.from_iterable(encoding.ids for encoding in found), np.uint32)
        parts.append(TextSlice(flat, np.cumsum(counts) - counts, counts))
    return make_inputs(parts, layout)


def _stored(tokenizer: Tokenizer, texts: Sequence[str]) -> TextSlice:
    """The word pieces of whole texts that stages would store."""
    import pyarrow as pa  # not at the top: models are opened where there is no pyarrow

    from raypipe.text.word_pieces import WordPieces

    flat, offsets = WordPieces(tokenizer).of(pa.array(texts, pa.string()), max_pieces=ALL)
    return TextSlice(flat, offsets[:-1], np.diff(offsets))


def _rows(inputs: Inputs) -> list[tuple[list[int], list[int]]]:
    """(ids, segments) of each sequence."""
    edges = np.cumsum(inputs.lengths)[:-1]
    columns = (np.split(column, edges) for column in (inputs.ids, inputs.segments))
    return [(ids.tolist(), segments.tolist()) for ids, segments in zip(*columns, strict=True)]
