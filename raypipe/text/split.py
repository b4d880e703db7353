"""Documents as overlapping passages of words or sentences, with the title and headings in front.

Text that is written without blanks, as Chinese, Japanese and Thai are, is counted in characters.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from raypipe.vocabulary import SplitBy

_WITHOUT_BLANKS = (
    "\u0e00-\u109f"  # Thai, Lao, Tibetan, Burmese
    "\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf"  # Khmer, Tai Le, New Tai Lue, Tai Tham
    "\u1b00-\u1b7f\ua980-\ua9ff\uaa60-\uaadf"  # Balinese, Javanese, more Burmese, Tai Viet
    "\u2e80-\u2fff\u3001-\u312f\u3190-\u31ff"  # radicals, punctuation, kana, Bopomofo
    "\u321f-\u325f\u3280-\ua4cf"  # squared and common Han, Yi; Korean's signs are between them
    "\uf900-\ufaff\ufe30-\ufe4f\uff01-\uff9f"  # compatible Han, wide and narrow forms
    "\U00011700-\U0001174f\U00016fe0-\U00018dff"  # Ahom, Tangut, Khitan
    "\U0001aff0-\U0001b2ff\U0001f200-\U0001f2ff\U00020000-\U0003ffff"  # more kana, rarer Han
)
"""Characters that are written without blanks between words, but for U+3000, which is one."""
_UNSPACED = re.compile(f"[{_WITHOUT_BLANKS}]")
_PERHAPS_UNSPACED = re.compile("[\u0e00-\u1fff\u2e80-\U0010ffff]")
WORD = re.compile(rf"[{_WITHOUT_BLANKS}]|[^\s{_WITHOUT_BLANKS}]+")
"""A word between blanks, or a character of text without them."""
_LINE = re.compile(r"[^\r\n]+")
_SENTENCE_END = re.compile(
    r"""(?<=[.!?])["'”’)\]]*\s+(?=[^\s.,;:!?a-z])"""
    r"""|(?<=[。！？｡།༎။។៕])["'”’)\]」』）】〉》]*\s*(?=[^\s。！？｡།༎။។៕"'”’)\]」』）】〉》])"""
)
LONGEST_SENTENCE = 100
"""Words or characters of a sentence with text without blanks, which may have no end marks."""


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
    return len(_starts(len(_units(body, splitting.by)), splitting))


def passages_of(title: str, headings: str, body: str, splitting: Splitting) -> list[str]:
    """The document's passages, in order; the first begins with the body's first unit.

    A passage is the first words of the title, those of the headings, and `length` units of the
    body, all with one blank in between. The last passage reaches the end of the body, and no
    passage's units are all in the one before. A body without any word gives one passage of title
    and headings. `whole` joins them as they are.

    Source: windows of 100 words, 50 apart, with 16 words of title and 32 of headings in front are
    those of CIP at TREC 2021 DL, section 3. Words are what white space separates; the paper does
    not say what it calls a word. Each character of text that is written without blanks is a word
    too, and no blank is put between such characters.
    """
    if splitting.by == "whole":
        return [" ".join(part for part in (title, headings, body) if part.strip())]
    limits = ((title, splitting.title_words), (headings, splitting.headings_words))
    front = [_joined(_words(text)[:limit]) for text, limit in limits]
    units = _units(body, splitting.by)
    windows = (units[start : start + splitting.length] for start in _starts(len(units), splitting))
    return [" ".join(filter(None, [*front, _joined(window)])) for window in windows]


def _sentence_spans(text: str) -> Iterator[tuple[int, int]]:
    """Where each sentence begins and ends, without white space around it, and none of them empty.

    A sentence ends with its line, or after `.`, `!` or `?` and closing quotes or brackets, where
    white space follows and then no lower-case letter. An abbreviation before a name ends one too.
    After `。`, `！`, `？` and their like in Tibetan, Burmese and Khmer no white space is needed.
    Text without blanks ends one after `LONGEST_SENTENCE` words or characters at the latest.
    """
    for line in _LINE.finditer(text):
        ends = [line.start() + match.end() for match in _SENTENCE_END.finditer(line[0])]
        for start, stop in zip([line.start(), *ends], [*ends, line.end()], strict=True):
            yield from _cut(text, start, stop)


def _cut(text: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """The sentence without white space around it; in parts if it is without blanks, and long."""
    sentence = text[start:stop]
    start += len(sentence) - len(sentence.lstrip())
    stop -= len(sentence) - len(sentence.rstrip())
    if stop - start > LONGEST_SENTENCE and _UNSPACED.search(sentence):
        words = [match.span() for match in WORD.finditer(text, start, stop)]
        for first in range(0, len(words), LONGEST_SENTENCE):
            part = words[first : first + LONGEST_SENTENCE]
            yield part[0][0], part[-1][1]
    elif start < stop:
        yield start, stop


def _units(text: str, by: SplitBy) -> list[str]:
    """The words or sentences, each with a blank in front if white space is there in the text."""
    if by == "whole":
        return []
    return _words(text) if by == "words" else _marked(text, _sentence_spans(text))


def _words(text: str) -> list[str]:
    if text.isascii() or _PERHAPS_UNSPACED.search(text) is None:
        return [f" {word}" for word in text.split()]  # the same, faster
    return _marked(text, (match.span() for match in WORD.finditer(text)))


def _marked(text: str, spans: Iterator[tuple[int, int]]) -> list[str]:
    return [
        f" {text[start:stop]}" if text[start - 1 : start].isspace() else text[start:stop]
        for start, stop in spans
    ]


def _joined(units: list[str]) -> str:
    return "".join(units).removeprefix(" ")


def _starts(num_units: int, splitting: Splitting) -> range:
    """Where each passage begins."""
    if splitting.by == "whole":
        return range(1)
    num = 1 + max(0, -(-(num_units - splitting.length) // splitting.stride))
    kept = num if splitting.at_most is None else min(num, splitting.at_most)
    return range(0, kept * splitting.stride, splitting.stride)
