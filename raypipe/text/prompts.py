"""A reranker's input as a prompt: words around a query and its passages, such as monoT5's.

    Query: {query} Document: {passage} Relevant:

Its model answers with a word. Inputs are sliced from word pieces like all others, so a text in a
prompt stands between spaces or at an end: there, pieces of what is around it are not its own.

Inputs sliced from word pieces are compared with those of the tokenizer itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from raypipe.errors import InputError
from raypipe.text.inputs import Inputs, Layout, PairLimits, TextSlice, make_inputs, taken
from raypipe.text.tokenize import encoded

if TYPE_CHECKING:  # conventions are read without it
    from tokenizers import Encoding, Tokenizer

MONO_PLACES = ("query", "passage")
DUO_PLACES = ("query", "passage_0", "passage_1")
"""The texts of a prompt, in the order in which they must stand there."""
_PLACE = re.compile(r"\{(\w*)\}")
NO_TOKEN = -1
"""No token's id: an input with it cannot be computed."""
_SAMPLE = "a"
"""Any text, to see what a tokenizer puts around it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptLayout(Layout):
    """How texts become one prompt, and the words with which it is answered."""

    first: int = NO_TOKEN
    separators: tuple[int, ...] = ()
    last: int = NO_TOKEN
    has_segments: bool = False
    around: tuple[tuple[int, ...], ...]
    """Token ids before the first text, between texts, and after the last."""
    words: tuple[str, ...]
    """The same as text."""
    answers: tuple[int, ...]
    """Token ids of the words whose logits are the model's units, in the order of the units."""

    @property
    def before(self) -> tuple[int, ...]:
        """Token ids before the first text."""
        return self.around[0]

    @property
    def behind(self) -> tuple[tuple[int, ...], ...]:
        """Token ids after each text."""
        return self.around[1:]

    def filled(self, texts: Sequence[str]) -> str:
        """The prompt with one text in each place."""
        return "".join(word + text for word, text in zip(self.words, [*texts, ""], strict=True))


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


def prompt_layout(
    tokenizer: Tokenizer, prompt: str, answers: Sequence[str], limits: PairLimits
) -> PromptLayout:
    """How inputs with this prompt are made.

    Args:
        tokenizer: the model's.
        prompt: without `prompt_problems`.
        answers: the words that the model answers with, in the order of its units.
        limits: what must have room beside the prompt.

    Raises:
        InputError: the tokenizer ends an input with no special token, an answer is not one word
            piece of it, or the limits leave no room; all problems together.
    """
    words, named = _split(prompt)
    problems: list[str] = []
    opening, closing = _specials(tokenizer)
    if not closing:
        problems.append(
            "the tokenizer: expected one that ends an input with a special token, as T5's does "
            "with </s>, found one that adds none"
        )
    pieces = [_pieces(tokenizer, word.strip()) for word in words]
    around = (opening + pieces[0], *pieces[1:-1], pieces[-1] + closing)
    layout = PromptLayout(
        segments=(0,) * len(named),
        around=around,
        words=tuple(words),
        answers=tuple(_answer(tokenizer, word, problems) for word in answers),
    )
    least = layout.num_specials + (limits.query_limit or 1)
    least += (len(named) - 1) * (limits.passage_limit or 1)
    if least > limits.total_limit:
        problems.append(
            f"total_limit: {limits.total_limit} tokens do not hold the prompt's own "
            f"{layout.num_specials} and the other limits, which need {least}"
        )
    if problems:
        raise InputError(problems)
    return layout


def _split(prompt: str) -> tuple[list[str], list[str]]:
    """(the words around the places, the places' names)."""
    parts = _PLACE.split(prompt)
    return parts[::2], parts[1::2]


def _pieces(tokenizer: Tokenizer, text: str) -> tuple[int, ...]:
    return tuple(encoded(tokenizer, [text])[0].ids)


def _specials(tokenizer: Tokenizer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The special tokens that the tokenizer puts before and after a text."""
    plain = _pieces(tokenizer, _SAMPLE)
    whole = tuple(encoded(tokenizer, [_SAMPLE], specials=True)[0].ids)
    starts = range(len(whole) - len(plain) + 1)
    at = next((start for start in starts if whole[start : start + len(plain)] == plain), 0)
    return whole[:at], whole[at + len(plain) :]


def _answer(tokenizer: Tokenizer, word: str, problems: list[str]) -> int:
    """The id of an answer's only piece; a problem if it has others, or is unknown."""
    ids = _pieces(tokenizer, word)
    tokens = [str(tokenizer.id_to_token(number)) for number in ids]
    if [token.lstrip("\u2581") for token in tokens] == [word]:
        return ids[0]
    problems.append(
        f"answers: expected words that are one piece of the tokenizer each, found {word!r} as "
        f"{' '.join(tokens)}; name the words that this model was trained to answer with"
    )
    return NO_TOKEN


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
    made = make_inputs([taken(alone, each) for each in rows], layout)
    columns = [[texts[row] for row in each.tolist()] for each in rows]
    filled = [layout.filled(each) for each in zip(*columns, strict=True)]
    return _first_other(texts, made, encoded(tokenizer, filled, specials=True))


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
