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
    parts: list[str] = []
    for part in _NAME_PART.findall(name):
        if parts[-1:] != [part.lower()]:
            parts.append(part.lower())
    return " ".join(parts)


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
    piece: list[str] = []
    size = 0
    for part in _parts(_RULE.sub(" ", block)):
        if piece and size + _num_tokens(part) > MAX_TOKENS:
            yield " ".join(piece)
            piece, size = [], 0
        piece += part.split()
        size += _num_tokens(part)
    if piece:
        yield " ".join(piece)


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

    Two such sets share a word among the first |x| - ceil(t |x|) + 1 words of the larger one and the
    first |y| - ceil(2 t |y| / (1 + t)) + 1 of the smaller one, in any one order of all words. With
    the rarest words first, few pairs share one, and only those are compared.

    Source: Bayardo, Ma, Srikant, Scaling up all pairs similarity search, WWW 2007, section 3;
    Xiao, Wang, Lin, Yu, Efficient similarity joins for near duplicate detection, WWW 2008, lemma 2.
    """
    sets = [frozenset(words(text)) for text in texts]
    sizes = [len(each) for each in sets]
    counts = Counter(word for each in sets for word in each)
    rank = {word: at for at, word in enumerate(sorted(counts, key=lambda w: (counts[w], w)))}
    holders: dict[str, dict[int, list[int]]] = {}
    pairs: list[tuple[int, int]] = []
    for j in sorted(range(len(sets)), key=sizes.__getitem__):
        each, group, size = sets[j], groups[j], sizes[j]
        rarest = sorted(each, key=rank.__getitem__)
        candidates: set[int] = set()
        for word in rarest[: _prefix(size, threshold)]:
            for other, indices in holders.get(word, {}).items():
                if other != group:
                    candidates.update(indices)
        for i in candidates:
            # Too small even if the larger one contains it.
            if sizes[i] >= threshold * size and _is_near(sets[i], each, threshold=threshold):
                pairs.append((min(i, j), max(i, j)))
        for word in rarest[: _prefix(size, 2 * threshold / (1 + threshold))]:
            holders.setdefault(word, {}).setdefault(group, []).append(j)
    return sorted(pairs, key=lambda pair: (pair[1], pair[0]))


def _prefix(size: int, share: float) -> int:
    """Words of which a set must share one, if it shares at least this share of its words.

    A share that is a whole number but for rounding takes one word more, which costs little.
    """
    return size - math.ceil(share * size - 1e-9) + 1


def _is_near(left: frozenset[str], right: frozenset[str], *, threshold: float) -> bool:
    shared = len(left & right)
    return shared / (len(left) + len(right) - shared) >= threshold
