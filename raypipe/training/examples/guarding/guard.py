"""The guard: evaluation queries and near copies of them must not be trained on.

Dropping a training query drops all its pairs, and every evaluation pair belongs to an evaluation
query. So pairs need no check of their own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from raypipe.data.python_docs.text import words
from raypipe.training.examples.guarding.near_copies import Near, nearest

SHOWN = 3
"""Queries shown on each side of the border."""


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
    near_copy: float | None = None
    """The least similarity of a near copy; None drops only queries of the same normalised text."""


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
    near_copy: float | None = None
    """The least similarity of what was dropped as a near copy."""
    samples: list[str] = field(default_factory=list)
    """The near copies at the border, dropped and kept, with the evaluation query they resemble."""

    def lines(self, name: str) -> list[str]:
        """The lines about a training set in the log and the table."""
        near = f", {self.near_query:,} with a similarity of {self.near_copy} or more to one"
        lines = [
            f"guard: {name}: dropped {self.same_query:,} training queries that are evaluation "
            f"queries{'' if self.near_copy is None else near}, and with them every evaluation pair"
            + (f" ({self.triples:,} triples)" if self.triples else ""),
            f"guard: {name}: {self.shared_passages:,} relevant passages are also relevant for an "
            "evaluation query (allowed)",
        ]
        if self.left_out_positive or self.left_out_negative:
            lines.append(
                f"guard: {name}: left out {self.left_out_positive:,} judged passages as relevant "
                f"and {self.left_out_negative:,} as irrelevant ones"
            )
        return lines + [f"guard: {name}: {sample}" for sample in self.samples]


def normalised(text: str) -> str:
    """The text's words in lower case, with single spaces."""
    return " ".join(words(text)) or text.strip().lower()


def refused_queries(texts: Sequence[str], guard: Guard, dropped: Dropped) -> set[int]:
    """Positions of the training queries that equal, or nearly equal, evaluation queries.

    `dropped` receives their numbers, and samples from both sides of the border: of what was dropped
    the least similar, and of what was kept the most similar.
    """
    exact = {normalised(text) for text in guard.queries}
    refused = {place for place, text in enumerate(texts) if normalised(text) in exact}
    dropped.same_query += len(refused)
    dropped.near_copy = guard.near_copy
    if guard.near_copy is None:
        return refused
    copies: list[tuple[int, Near]] = []
    kept: list[tuple[int, Near]] = []
    found = nearest(texts, guard.queries, threshold=guard.near_copy)
    for place, near in enumerate(found):
        if near is not None and place not in refused:
            (copies if near.similarity >= guard.near_copy else kept).append((place, near))
    dropped.near_query += len(copies)
    copies.sort(key=lambda each: each[1].similarity)
    kept.sort(key=lambda each: -each[1].similarity)
    for what, those in (("dropped", copies), ("kept", kept)):
        dropped.samples += [
            f"{what} at {near.similarity:.2f}: {texts[place]!r} for {near.query!r}"
            for place, near in those[:SHOWN]
        ]
    return refused | {place for place, _ in copies}
