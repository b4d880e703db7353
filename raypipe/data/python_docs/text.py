"""Texts of the builtin collection: paragraphs as passages, names as words, near-duplicates."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence

_WORD = re.compile(r"\w+")
_TOKEN = re.compile(r"\w+|[^\w\s]")
_RULE = re.compile(r"[-=+*~_#]{4,}")
_NAME_PART = re.compile(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*|\d+|[^\W\d_a-zA-Z]+")
_BLANK_LINES = re.compile(r"\n\s*\n")
_SENTENCE_END = re.compile(r"(?<=[.!?:;])\s+|\n")
_OF_A_MACHINE = re.compile(r"\b0x[0-9a-fA-F]{7,}|(?<![\w.])/(?:usr|home|root|tmp|opt|var)/")
MIN_WORDS = 5
MAX_TOKENS = 150
"""Limit in words and signs; there are about 1.2 times as many word pieces, and MiniLM reads 256."""


def words(text: str) -> list[str]:
    """Words in lower case, in order."""
    return _WORD.findall(text.lower())


def name_words(name: str) -> str:
    """A dotted, snake_case or CamelCase name as words; a word that follows itself is kept once.

    `OrderedDict.move_to_end` gives `ordered dict move to end`.
    """
    found: list[str] = []
    for part in _NAME_PART.findall(name):
        if found[-1:] != [part.lower()]:
            found.append(part.lower())
    return " ".join(found)


def paragraphs(text: str) -> list[str]:
    """Paragraphs of 5 words to 150 words and signs, each on one line with single spaces.

    A shorter one is joined with the next (the last with the one before), a longer one is cut at
    the ends of its sentences or lines. Ruling lines of tables and headings are left out, as are
    paragraphs that name memory addresses or folders of a machine.
    """
    pieces = [piece for block in _BLANK_LINES.split(text) for piece in _pieces(block)]
    merged: list[str] = []
    for piece in pieces:
        if merged and _is_short(merged[-1]):
            merged[-1] = f"{merged[-1]} {piece}"
        else:
            merged.append(piece)
    if len(merged) > 1 and _is_short(merged[-1]):
        merged[-2:] = [f"{merged[-2]} {merged[-1]}"]
    return [each for each in merged if not _is_short(each) and not _OF_A_MACHINE.search(each)]


def _is_short(text: str) -> bool:
    return len(words(text)) < MIN_WORDS


def _pieces(block: str) -> Iterator[str]:
    """The block on one line, or cut into pieces of at most MAX_TOKENS words and signs."""
    held: list[str] = []
    size = 0
    for part in _parts(_RULE.sub(" ", block)):
        if held and size + _num_tokens(part) > MAX_TOKENS:
            yield " ".join(held)
            held, size = [], 0
        held += part.split()
        size += _num_tokens(part)
    if held:
        yield " ".join(held)


def _parts(block: str) -> Iterator[str]:
    """Units that are not cut: a whole block, or its sentences and lines, or their words."""
    if _num_tokens(block) <= MAX_TOKENS:
        yield block
        return
    for sentence in _SENTENCE_END.split(block):
        yield from [sentence] if _num_tokens(sentence) <= MAX_TOKENS else sentence.split()


def _num_tokens(text: str) -> int:
    return len(_TOKEN.findall(text))


def near_duplicates(
    texts: Sequence[str], *, groups: Sequence[int], threshold: float
) -> list[tuple[int, int]]:
    """All pairs (i, j), i < j, of texts in different groups whose sets of words have a Jaccard
    coefficient of at least the threshold; exact, by ascending j, then i.

    Two such sets share a word among the first |x| - ceil(t |x|) + 1 of each, in any one order of
    all words. With the rarest words first, few pairs share one, and only those are compared.

    Source: Bayardo, Ma, Srikant, Scaling up all pairs similarity search, WWW 2007, section 3;
    Chaudhuri, Ganti, Kaushik, A primitive operator for similarity joins, ICDE 2006, section 4.
    """
    sets = [frozenset(words(text)) for text in texts]
    counts = Counter(word for each in sets for word in each)
    holders: dict[str, list[int]] = {}
    pairs: list[tuple[int, int]] = []
    for j, each in enumerate(sets):
        rarest = sorted(each, key=lambda word: (counts[word], word))
        prefix = rarest[: len(each) - math.ceil(threshold * len(each)) + 1]
        candidates = {i for word in prefix for i in holders.get(word, ())}
        for i in sorted(candidates):
            if groups[i] != groups[j] and _is_near(sets[i], each, threshold=threshold):
                pairs.append((i, j))
        for word in prefix:
            holders.setdefault(word, []).append(j)
    return pairs


def _is_near(left: frozenset[str], right: frozenset[str], *, threshold: float) -> bool:
    if min(len(left), len(right)) < threshold * max(len(left), len(right)):
        return False  # too small even if one contains the other
    shared = len(left & right)
    return shared / (len(left) + len(right) - shared) >= threshold
