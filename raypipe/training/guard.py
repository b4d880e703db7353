"""The guard: evaluation queries and near copies of them must not be trained on.

Dropping a training query drops all its pairs, and every evaluation pair belongs to an evaluation
query. So pairs need no check of their own.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from raypipe.config.training import DevSet, Guarded, Training
from raypipe.data.python_docs import text as python_docs
from raypipe.data.qrels import read_qrels
from raypipe.data.queries import read_queries
from raypipe.errors import InputError
from raypipe.text.split import WORD

BORDER = 0.1
"""How far below the threshold similar queries are still looked for, to be shown."""
_UNIT = 1024
"""Weights are whole multiples of 1 / _UNIT, so that sums have no order."""


def words(text: str) -> list[str]:
    """The text's words in lower case, in order; each character of text without blanks is one."""
    found = python_docs.words(text)
    return found if text.isascii() else WORD.findall(" ".join(found))


class Near(NamedTuple):
    """The evaluation query that is most similar to a training query."""

    similarity: float
    """From 0 to 1."""
    query: str


def nearest(
    texts: Sequence[str], evaluation: Sequence[str], *, threshold: float
) -> Iterator[Near | None]:
    """The most similar evaluation query of each text; the first of equal ones.

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
        near: Near | None = None
        candidates = {n for word in weights.heaviest(own, least) for n in holders.get(word, ())}
        for number in sorted(candidates):
            shared = weights.total(own & sets[number])
            similarity = shared / (total + totals[number] - shared)
            if similarity >= least and (near is None or similarity > near.similarity):
                near = Near(similarity, evaluation[number])
        yield near


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
    """The guard's report: how many it dropped, by reason, as in the examples' facts."""

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


def guards_of(recipe: Training) -> dict[str, Guard]:
    """The guard for training sets over a collection: texts of all guarded sets, ids of its own.

    Raises:
        InputError: the qrels of a set judge none of its queries.
    """
    every: list[tuple[DevSet | Guarded, bool]] = [(dev, False) for dev in recipe.dev.values()]
    every += [(guarded, guarded.leave_out_passages) for guarded in recipe.guard.values()]
    texts: list[str] = []
    guards = {name: Guard() for name in recipe.collections}
    for guarded, leave_out in every:
        queries = read_queries(Path(guarded.queries))
        judged = None if guarded.qrels is None else read_qrels(Path(guarded.qrels))
        if judged is None:
            texts += [text for _, text in queries]
            continue
        columns = ("query_id", "passage_id", "relevance")
        judgements = list(zip(*(judged[c].to_pylist() for c in columns), strict=True))
        asked = {query_id for query_id, _, _ in judgements}
        found = [text for query_id, text in queries if query_id in asked]
        if not found:
            raise InputError(
                f"{guarded.queries}: none of its queries is judged in {guarded.qrels}; expected "
                "the judgements of these queries"
            )
        texts += found
        if guarded.collection is None:
            continue
        before = guards[guarded.collection]
        guards[guarded.collection] = Guard(
            shared=before.shared | frozenset(p for _, p, grade in judgements if grade > 0),
            left_out=before.left_out | frozenset(p for _, p, _ in judgements if leave_out),
        )
    queries_of_all = tuple(dict.fromkeys(texts))
    near = None if recipe.near_copy == "same" else recipe.near_copy
    return {
        name: replace(guard, queries=queries_of_all, near_copy=near)
        for name, guard in guards.items()
    }


def lines_about(name: str, facts: Mapping[str, Any]) -> list[str]:
    """Lines about a training set: the number of examples, and what was left out and why."""
    dropped = Dropped(**facts["dropped"], samples=list(facts["samples"]))
    short = facts["short"]
    line = (
        f"train: {name}: {facts['examples']:,} examples of {facts['passages']} passages over "
        f"{facts['queries']:,} queries"
    )
    if "relevant" in facts:
        line += f", {facts['relevant']:,} of them relevant"
    reasons = [
        (
            short["without_negatives"],
            "relevant passages with too few negatives",
        ),
        (short["beyond_runs"], "relevant passages below negatives.relevant_last in every run"),
        (short["without_teacher"], "relevant passages without a teacher's score"),
        (short["negatives_without_teacher"], "negatives without a teacher's score"),
        (short["filtered"], "negatives that the teacher scores above the relevant passage"),
        (
            short.get("copies"),
            "negatives with the text of a passage that is relevant for their query, or the query's "
            "own passage",
        ),
        (short.get("lists"), "unlabelled lists of queries with too few passages"),
        (short.get("passages_without_teacher"), "passages without a teacher's score"),
    ]
    if "documents" in facts:
        number, not_best = (facts["documents"][key] for key in ("relevant", "not_best"))
        line += f", of {number:,} relevant documents"
        reasons.append((not_best, "passages that are not among the best of their document"))
    left = [f"{count:,} {what}" for count, what in reasons if count]
    lines = [line + (f"; left out: {', '.join(left)}" if left else "")]
    if empty := facts.get("relevant_without_text", 0):
        lines.append(f"train: {name}: {empty:,} passages without text are learnt as relevant")
    if unknown := facts.get("unknown_queries", 0):
        lines.append(
            f"train: {name}: left out judgements of {unknown:,} queries that are not in its queries"
        )
    if len(grades := facts.get("grades", {})) > 1:
        of_each = ", ".join(f"{count:,} of grade {grade}" for grade, count in grades.items())
        lines.append(f"train: {name}: learnt as relevant: {of_each}; min_grade is the lowest")
    return [*lines, *dropped.lines(name)]
