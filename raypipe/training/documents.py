"""Draws examples from judged documents: a passage of a relevant one, passages of irrelevant ones.

Source: CIP at TREC 2021 DL, section 3: for each passage of a relevant document one passage drawn
from the irrelevant documents of its query; of a relevant document the 5 passages that an earlier
model scores highest are kept, each with its own negative.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from raypipe.config.training import Negatives
from raypipe.stages.documents.passage_map import PassageMap
from raypipe.training.examples import Examples, RelevantTexts, pair_keys
from raypipe.training.judgements import Judged
from raypipe.training.negatives import (
    Drawn,
    Negative,
    Short,
    Taught,
    TrainingRun,
    example_of,
    examples_of,
    pool,
    reached,
    spans_of,
)

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BestPassages:
    """Which passages of a relevant document are kept."""

    number: int
    scores: Taught
    """The scores of an earlier phase's model."""


@dataclass(frozen=True, slots=True)
class DocumentPassages:
    """The passages of documents: the first `at_most` of each."""

    map: PassageMap
    at_most: int

    def of(self, document: int) -> list[int]:
        """The passages of one document, by window."""
        _, rows = self.map.passages(np.array([document], np.int64), self.at_most)
        found: list[int] = rows.tolist()
        return found


def document_examples(
    judged: Judged,
    runs: Sequence[TrainingRun],
    passages: DocumentPassages,
    relevant_texts: RelevantTexts,
    best: BestPassages | None,
    window: Negatives,
    *,
    seed: int,
    short: Short,
) -> tuple[Examples, int]:
    """Examples by query row, relevant document and window; and how many `best` left out.

    A draw depends on the seed and the query alone, and `best` chooses among what was drawn: a
    passage that is kept has the negative that it has without it.

    Args:
        judged: the documents, by query row.
        runs: runs of documents, the sources of negatives.
        passages: the documents' passages.
        relevant_texts: the texts of the known documents' passages, which are no negatives.
        best: None keeps all passages.
        window: ranks of documents, and counts.
        seed: the seed of the draws.
        short: counts what could not be drawn; a relevant passage without enough negatives counts.
    """
    spans = [spans_of(run) for run in runs]
    rows: list[Drawn] = []
    left_out = 0
    for query in sorted(judged.relevant):
        documents = pool(query, runs, spans, window, judged.known.get(query, set()))
        negatives = _negatives(query, documents, passages, relevant_texts, short)
        rng = np.random.default_rng([seed, query])
        for document in reached(query, judged.relevant[query], runs, spans, window, short):
            own = passages.of(document)
            drawn = {passage: _drawn(query, passage, negatives, window, rng) for passage in own}
            short.without_negatives += sum(not examples for examples in drawn.values())
            kept = own if best is None else _best(query, own, best)
            left_out += len(own) - len(kept)
            rows += [example for passage in kept for example in drawn[passage]]
    return examples_of(rows, window.per_example + 1, None), left_out


def known_pairs(judged: Judged, passages: PassageMap) -> Int64:
    """Keys of all passages of known documents with their queries, sorted."""
    keys = [np.empty(0, np.int64)]
    for query, documents in judged.known.items():
        _, rows = passages.passages(np.array(sorted(documents), np.int64))
        keys.append(pair_keys(np.full(len(rows), query), rows))
    return np.sort(np.concatenate(keys))


@dataclass(frozen=True, slots=True)
class _Negatives:
    """All possible negatives of a query; a hundred documents may have thousands of passages."""

    documents: list[Negative]
    places: Int64
    """The place of each passage's document in that list."""
    rows: Int64

    def at(self, number: int) -> Negative:
        """A passage, with the run and the rank of its document."""
        _, run, rank = self.documents[int(self.places[number])]
        return int(self.rows[number]), run, rank


def _negatives(
    query: int,
    documents: list[Negative],
    passages: DocumentPassages,
    relevant_texts: RelevantTexts,
    short: Short,
) -> _Negatives:
    rows = np.array([document for document, _, _ in documents], np.int64)
    places, of_documents = passages.map.passages(rows, passages.at_most)
    keep = ~relevant_texts.include(np.full(len(of_documents), query), of_documents)
    short.copies += int((~keep).sum())
    return _Negatives(documents, places[keep], of_documents[keep])


def _drawn(
    query: int,
    passage: int,
    negatives: _Negatives,
    window: Negatives,
    rng: np.random.Generator,
) -> list[Drawn]:
    """The examples of one relevant passage, without a negative twice; none if there are too few."""
    num_drawn = window.examples * window.per_example
    number = len(negatives.rows)
    if number < num_drawn:
        return []
    chosen = [negatives.at(int(place)) for place in rng.choice(number, num_drawn, replace=False)]
    starts = range(0, num_drawn, window.per_example)
    return [
        example_of(query, passage, chosen[start : start + window.per_example]) for start in starts
    ]


def _best(query: int, passages: list[int], best: BestPassages) -> list[int]:
    """The passages with the highest scores, the first of equals, in their own order."""
    scores = np.array(best.scores.of(query, passages), np.float64)
    scores[np.isnan(scores)] = -np.inf
    order = np.argsort(-scores, kind="stable")[: best.number]
    return [passages[at] for at in sorted(order.tolist()) if scores[at] > -np.inf]
