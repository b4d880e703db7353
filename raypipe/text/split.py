"""Documents as overlapping passages of words or sentences, with the title and headings in front."""

import re
from dataclasses import dataclass

from raypipe.vocabulary import SplitBy

_LINE_ENDS = re.compile(r"[\r\n]+")
_SENTENCE_ENDS = re.compile(r"(?<=[.!?])[\"'”’)\]]*\s+(?=[^\s.,;:!?a-z])")


@dataclass(frozen=True, slots=True)
class Splitting:
    """How documents become passages."""

    by: SplitBy
    """Units of a passage: words, sentences, or the whole document."""
    length: int = 0
    """Number of units in a passage; for words and sentences."""
    stride: int = 0
    """Number of units from the beginning of a passage to that of the next, at most `length`."""
    title_words: int = 0
    """Number of the title's words that are put in front of each passage."""
    headings_words: int = 0
    """Number of the headings' words that come after those of the title."""
    at_most: int | None = None
    """Number of a document's passages that are kept, the first ones; None keeps all."""


def num_passages(body: str, splitting: Splitting) -> int:
    """The number of passages of a document with this body; 1 or more."""
    return len(_starts(len(_units(body, splitting)), splitting))


def passages_of(title: str, headings: str, body: str, splitting: Splitting) -> list[str]:
    """The document's passages, in order; the first begins with the body's first unit.

    A passage is the first words of the title, those of the headings, and `length` units of the
    body, all with one blank in between. The last passage reaches the end of the body, and no
    passage's units are all in the one before. A body without any word gives one passage of title
    and headings. `whole` joins them as they are.

    Source: windows of 100 words, 50 apart, with 16 words of title and 32 of headings in front are
    those of CIP at TREC 2021 DL, section 3. Words are what white space separates; the paper does
    not say what it calls a word.
    """
    if splitting.by == "whole":
        return [" ".join(part for part in (title, headings, body) if part.strip())]
    front = title.split()[: splitting.title_words] + headings.split()[: splitting.headings_words]
    units = _units(body, splitting)
    length = splitting.length
    return [
        " ".join([*front, *units[start : start + length]])
        for start in _starts(len(units), splitting)
    ]


def sentences_of(text: str) -> list[str]:
    """The text's sentences, each without white space around it, and none of them empty.

    A sentence ends with its line, or after `.`, `!` or `?` and closing quotes or brackets, where
    white space follows and then no lower-case letter. An abbreviation before a name ends one too.
    """
    return [sentence for line in _LINE_ENDS.split(text) for sentence in _of_line(line) if sentence]


def _of_line(line: str) -> list[str]:
    ends = [match.end() for match in _SENTENCE_ENDS.finditer(line)]
    bounds = zip([0, *ends], [*ends, len(line)], strict=True)
    return [line[start:stop].strip() for start, stop in bounds]


def _units(body: str, splitting: Splitting) -> list[str]:
    if splitting.by == "whole":
        return []
    return body.split() if splitting.by == "words" else sentences_of(body)


def _starts(num_units: int, splitting: Splitting) -> range:
    """Where each passage begins."""
    if splitting.by == "whole":
        return range(1)
    num = 1 + max(0, -(-(num_units - splitting.length) // splitting.stride))
    kept = num if splitting.at_most is None else min(num, splitting.at_most)
    return range(0, kept * splitting.stride, splitting.stride)
