"""The guard: evaluation queries and near copies of them must not be trained on.

Dropping a training query drops all its pairs, and every evaluation pair belongs to an evaluation
query. So pairs need no check of their own.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from raypipe.data.python_docs.text import words

NEAR = 0.6
"""Two queries whose sets of words have at least this Jaccard coefficient count as the same."""


@dataclass(frozen=True)
class Guard:
    """Evaluation queries and pairs, over all guarded sets."""

    queries: tuple[str, ...] = ()
    """Texts."""
    left_out: frozenset[str] = frozenset()
    """Passages that may not be used even as negatives."""
    shared: frozenset[str] = frozenset()
    """Passages relevant for an evaluation query; they are allowed with other queries, and
    counted."""


@dataclass
class Dropped:
    """What the guard dropped, and why; the counts are in the examples' facts."""

    same_query: int = 0
    near_query: int = 0
    triples: int = 0
    """Number of given triples of those queries."""
    left_out_negative: int = 0
    left_out_positive: int = 0
    shared_passages: int = 0
    samples: list[str] = field(default_factory=list)
    """A few of the dropped queries with the evaluation query they resemble."""

    def lines(self, name: str) -> list[str]:
        """The lines about a training set in the log and the table."""
        lines = [
            f"guard: {name}: dropped {self.same_query:,} training queries that are evaluation "
            f"queries, {self.near_query:,} that share {NEAR:.0%} of their words with one, and with "
            f"them every evaluation pair"
            + (f" ({self.triples:,} triples)" if self.triples else ""),
            f"guard: {name}: {self.shared_passages:,} relevant passages are also relevant for an "
            "evaluation query (allowed)",
        ]
        if self.left_out_positive or self.left_out_negative:
            lines.append(
                f"guard: {name}: left out {self.left_out_positive:,} judged passages as relevant "
                f"and {self.left_out_negative:,} as irrelevant ones"
            )
        return lines + [f"guard: {name}: for instance {sample}" for sample in self.samples]


def normalised(text: str) -> str:
    """The text's words in lower case, with single spaces."""
    return " ".join(words(text)) or text.strip().lower()


def refused_queries(texts: Sequence[str], guard: Guard, dropped: Dropped) -> set[int]:
    """Positions of the training queries that equal, or nearly equal, evaluation queries."""
    exact = {normalised(text): text for text in guard.queries}
    refused = set()
    for place, (text, near) in enumerate(zip(texts, _nearest(texts, guard.queries), strict=True)):
        if normalised(text) in exact:
            dropped.same_query += 1
        elif near is not None:
            dropped.near_query += 1
        else:
            continue
        refused.add(place)
        if len(dropped.samples) < 3 and near is not None and near != text:
            dropped.samples.append(f"{text!r} for {near!r}")
    return refused


def _nearest(texts: Sequence[str], evaluation: Sequence[str]) -> Iterable[str | None]:
    """An evaluation query with a Jaccard coefficient of NEAR or more, or None, for each text.

    Two such sets share a word among the first |x| - ceil(NEAR |x|) + 1 of each in one order of all
    words (Chaudhuri et al. 2006, section 4). Rare words come first, so that few sets are compared.
    """
    sets = [frozenset(words(text)) for text in evaluation]
    counts = Counter(word for each in sets for word in each)

    def prefix(each: frozenset[str]) -> list[str]:
        rarest = sorted(each, key=lambda word: (counts[word], word))
        return rarest[: len(each) - math.ceil(NEAR * len(each)) + 1]

    holders: dict[str, list[int]] = {}
    for number, each in enumerate(sets):
        for word in prefix(each):
            holders.setdefault(word, []).append(number)
    for text in texts:
        own = frozenset(words(text))
        candidates = sorted({n for word in prefix(own) for n in holders.get(word, ())})
        near = (evaluation[n] for n in candidates if _jaccard(own, sets[n]) >= NEAR)
        yield next(near, None)


def _jaccard(left: frozenset[str], right: frozenset[str]) -> float:
    shared = len(left & right)
    together = len(left) + len(right) - shared
    return shared / together if together else 0.0
