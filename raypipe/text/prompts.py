"""A reranker's input as a prompt: words around a query and its passages, such as monoT5's.

    Query: {query} Document: {passage} Relevant:

Its model answers with a word. A text in a prompt stands between spaces or at an end: there, pieces
of what is around it are not its own.

Inputs sliced from word pieces are compared with those of the tokenizer itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from raypipe.text.inputs import Inputs, Layout, TextSlice, make_inputs, taken
from raypipe.text.tokenize import encoded

if TYPE_CHECKING:  # conventions are read without it
    from tokenizers import Encoding, Tokenizer

MONO_PLACES = ("query", "passage")
DUO_PLACES = ("query", "passage_0", "passage_1")
"""The texts of a prompt, in the order in which they must stand there."""
_PLACE = re.compile(r"\{(\w*)\}")


def prompt_problems(prompt: str, places: Sequence[str]) -> list[str]:
    """Why a prompt does not have these places, each once, in order and between spaces."""
    words, named = _split(prompt)
    if named != [*places] or any(mark in word for word in words for mark in "{}"):
        expected = ", ".join(f"{{{place}}}" for place in places)
        return [
            f"prompt: expected a text with {expected}, each once, in this order, found {prompt!r}"
        ]
    first, *between, last = words
    apart = all(len(word) > 1 or word == " " for word in between)
    sides = [first[-1:], *(end for word in between for end in (word[:1], word[-1:])), last[:1]]
    if not apart or any(side not in ("", " ") for side in sides):
        return [
            f"prompt: expected a space between each place and the words beside it, found {prompt!r}"
        ]
    return []


def _split(prompt: str) -> tuple[list[str], list[str]]:
    """(the words around the places, the places' names)."""
    parts = _PLACE.split(prompt)
    return parts[::2], parts[1::2]


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
    other = _first_other(texts, make_inputs([alone], single), whole)
    if pair is None or other is not None:
        return other
    both = encoded(tokenizer, list(zip(texts, [*texts[1:], texts[0]], strict=True)), specials=True)
    following = taken(alone, np.roll(np.arange(len(texts)), -1))
    made = make_inputs([alone, following], pair)
    return _first_other(texts, made, both, segments=pair.has_segments)


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


def _first_other(
    texts: Sequence[str], made: Inputs, own: Sequence[Encoding], *, segments: bool = False
) -> str | None:
    """The first text whose input has other ids, or with `segments` other segments, than its own."""
    edges = np.cumsum(made.lengths)[:-1]
    ids, rows = (np.split(column, edges) for column in (made.ids, made.segments))
    for text, found, row, whole in zip(texts, ids, rows, own, strict=True):
        if found.tolist() != whole.ids or (segments and row.tolist() != whole.type_ids):
            return text
    return None
