"""Words as a search engine for English sees them, approximately: lower case, stop words, stems.

BM25 itself is Lucene's, with Lucene's analyzer. These terms serve to foresee how many passages
share a term with a query, without a Java virtual machine.
"""

import re
from functools import lru_cache

_WORD = re.compile(r"\w+(?:['’.:]\w+)*")
STOP_WORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their then "
    "there these they this to was will with".split()
)
"""Those of Lucene's EnglishAnalyzer."""
_ENDINGS = (
    ("ational", "ate"), ("ization", "ize"), ("fulness", "ful"), ("ousness", "ous"),
    ("iveness", "ive"), ("tional", "tion"), ("biliti", "ble"), ("ation", "ate"),
    ("alism", "al"), ("aliti", "al"), ("iviti", "ive"), ("ment", ""), ("ence", ""),
    ("ance", ""), ("able", ""), ("ible", ""), ("ness", ""), ("ical", "ic"), ("less", ""),
    ("ive", ""), ("ize", ""), ("ous", ""), ("ion", ""), ("ful", ""), ("al", ""), ("ic", ""),
    ("er", ""), ("li", ""), ("at", ""), ("e", ""),
)  # fmt: skip


def terms(text: str, *, english: bool = True) -> list[str]:
    """The terms of a text, in order; without `english` its words in lower case."""
    words = _WORD.findall(text.lower())
    if not english:
        return words
    return [stem(word) for word in words if word not in STOP_WORDS]


@lru_cache(maxsize=1 << 18)
def stem(word: str) -> str:
    """About the stem of an English word that Porter's algorithm finds.

    Plurals, -ed, -ing and the most frequent suffixes go, wherever four letters are left.
    """
    word = word.removesuffix("'s").removesuffix("’s")
    if len(word) < 4 or not word.isascii() or not word.isalpha():
        return word
    if word.endswith("sses") or word.endswith("ies"):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    for ending in ("ed", "ing"):
        rest = word.removesuffix(ending)
        if rest != word and re.search("[aeiouy]", rest):
            word = rest[:-1] if rest[-1:] == rest[-2:-1] and rest[-1:] not in "lsz" else rest
            break
    if word.endswith("y") and re.search("[aeiou]", word[:-1]):
        word = word[:-1] + "i"
    for ending, left in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) + len(left) >= 4:
            word = word[: len(word) - len(ending)] + left
    return word
