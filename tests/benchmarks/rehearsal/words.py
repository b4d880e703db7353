"""Words to make up passages from, as frequent as in a collection of real text."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from raypipe.errors import InputError

NUM_UNSEEN = 1_000_000
"""Made-up words for what the collection is too small to show."""
SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
FEWEST_SYLLABLES = 3


@dataclass(frozen=True)
class Words:
    """A distribution of words: those of a collection, and made-up ones for the rest."""

    seen: list[str]
    """In order of first appearance, as the text has them: case and punctuation included."""
    counts: NDArray[np.int64]
    """How often each of them appears."""
    unseen: float = field(init=False)
    """The share of a longer text's words that are none of these (Good and Turing): the share of
    words that appear once."""

    def __post_init__(self) -> None:
        once = int(np.count_nonzero(self.counts == 1))
        object.__setattr__(self, "unseen", once / int(self.counts.sum()))

    def draw(self, generator: np.random.Generator, num: int) -> NDArray[np.int64]:
        """Numbers of `num` independent words; those from len(seen) on are made-up words.

        A made-up word of rank r has a probability in proportion to 1 / r (Zipf).
        """
        point = generator.random(num)
        ends = np.cumsum(self.counts) * ((1.0 - self.unseen) / self.counts.sum())
        found = np.searchsorted(ends, point, side="right")
        (beyond,) = np.nonzero(found >= len(self.seen))
        ranks = np.exp(generator.random(len(beyond)) * math.log(NUM_UNSEEN)).astype(np.int64)
        found[beyond] = len(self.seen) + np.minimum(ranks, NUM_UNSEEN) - 1
        return found

    def listed(self) -> list[str]:
        """Every word by its number."""
        return [*self.seen, *(made_up(number) for number in range(NUM_UNSEEN))]


def words_like(texts: Iterable[str]) -> Words:
    """The words of these texts, split at white space, with their frequencies.

    Raises:
        InputError: the texts have no word.
    """
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text.split())
    if not counts:
        raise InputError(
            "the collection to imitate: expected passages with words; found none. Name another "
            "with --like"
        )
    return Words(list(counts), np.fromiter(counts.values(), np.int64, len(counts)))


def made_up(number: int) -> str:
    """A pronounceable word for each number from 0 on, each another."""
    number += len(SYLLABLES) ** (FEWEST_SYLLABLES - 1)
    parts = []
    while number:
        number, place = divmod(number, len(SYLLABLES))
        parts.append(SYLLABLES[place])
    return "".join(parts)
