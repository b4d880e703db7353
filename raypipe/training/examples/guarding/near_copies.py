"""Near copies of evaluation queries: the similarity of two queries, and the nearest one of each.

The similarity is the Jaccard coefficient of their words, where each word counts by its rarity in
the training queries. So what two queries ask about decides, and not that both begin with "where
is"; where every word is equally rare, it is the plain coefficient.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from raypipe.data.python_docs.text import words

BORDER = 0.1
"""How far below the threshold similar queries are still looked for, to be shown."""
_UNIT = 1024
"""Weights are whole multiples of 1 / _UNIT, so that sums have no order."""


class Near(NamedTuple):
    """The evaluation query that is most similar to a training query."""

    similarity: float
    """From 0 to 1."""
    query: str


def nearest(
    texts: Sequence[str], evaluation: Sequence[str], *, threshold: float
) -> Iterator[Near | None]:
    """For each text the most similar evaluation query; of equal ones the first.

    It is None if no similarity reaches `threshold` - BORDER.

    Two such sets share a word among the heaviest of each that leave less than that part of its
    weight, in one order of all words (after Chaudhuri et al. 2006, section 4). So few are compared.
    """
    least = max(threshold - BORDER, 0.0)
    weights = _Weights(texts)
    sets = [frozenset(words(text)) for text in evaluation]
    totals = [weights.total(each) for each in sets]
    holders: dict[str, list[int]] = {}
    for number, each in enumerate(sets):
        for word in weights.heaviest(each, least):
            holders.setdefault(word, []).append(number)
    for text in texts:
        own = frozenset(words(text))
        total = weights.total(own)
        found: Near | None = None
        candidates = {n for word in weights.heaviest(own, least) for n in holders.get(word, ())}
        for number in sorted(candidates):
            shared = weights.total(own & sets[number])
            similarity = shared / (total + totals[number] - shared)
            if similarity >= least and (found is None or similarity > found.similarity):
                found = Near(similarity, evaluation[number])
        yield found


class _Weights:
    """The weight of each word: log(1 + N / n), for n of N training queries with the word.

    A word that no training query has counts as if one had it.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._counts = Counter(word for text in texts for word in set(words(text)))
        self._num_texts = len(texts)

    def _of(self, word: str) -> int:
        return round(_UNIT * math.log1p(self._num_texts / max(1, self._counts[word])))

    def total(self, each: frozenset[str]) -> int:
        return sum(map(self._of, each))

    def heaviest(self, each: frozenset[str], part: float) -> list[str]:
        """The heaviest words, up to where those left have less than this part of the weight."""
        left = self.total(each)
        least = part * left - 1  # one unit more than rounding could take away
        chosen = []
        for word in sorted(each, key=lambda word: (-self._of(word), word)):
            if left < least:
                break
            chosen.append(word)
            left -= self._of(word)
        return chosen
