"""A small BM25 over sampled passages: how many match a query, and which ones come first."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from raypipe.text.terms import terms

K1, B = 0.9, 0.4
Int64 = NDArray[np.int64]


class Resembling:
    """The passages of a sample, indexed by the terms of the queries alone."""

    def __init__(
        self, queries: Sequence[str], passages: Sequence[str], *, english: bool = True
    ) -> None:
        """Reads every text once."""
        self._queries = [sorted(set(terms(query, english=english))) for query in queries]
        wanted = {term for query in self._queries for term in query}
        found: dict[str, list[tuple[int, int]]] = {term: [] for term in wanted}
        lengths = np.empty(len(passages))
        for row, text in enumerate(passages):
            of_text = terms(text, english=english)
            lengths[row] = len(of_text)
            for term, count in Counter(t for t in of_text if t in wanted).items():
                found[term].append((row, count))
        mean = max(1.0, float(lengths.mean())) if len(lengths) else 1.0
        lengths = _as_kept(lengths)
        self._num_passages, self._norms = len(passages), K1 * (1 - B + B * lengths / mean)
        self._postings = {
            term: np.array(rows, np.int64).reshape(-1, 2) for term, rows in found.items()
        }

    def num_matching(self) -> NDArray[np.float64]:
        """The number of passages with a term of each query, [q]."""
        return np.array([float((self._scores(q) > 0).sum()) for q in range(len(self._queries))])

    def first(self, number: int) -> tuple[Int64, NDArray[np.float32]]:
        """The best passages of each query, best first, and their scores, both [q, number].

        Equal scores are ordered by position. Where no more match, -1 and 0.
        """
        number = min(number, self._num_passages)
        rows = np.full((len(self._queries), number), -1, np.int64)
        found = np.zeros(rows.shape, np.float32)
        for query in range(len(self._queries)):
            scores = self._scores(query).astype(np.float32)
            matching = np.flatnonzero(scores)
            best = matching[np.argsort(-scores[matching], kind="stable")[:number]]
            rows[query, : len(best)], found[query, : len(best)] = best, scores[best]
        return rows, found

    def _scores(self, query: int) -> NDArray[np.float64]:
        scores = np.zeros(self._num_passages)
        for term in self._queries[query]:
            rows, counts = self._postings[term].T
            idf = np.log(1 + (self._num_passages - len(rows) + 0.5) / (len(rows) + 0.5))
            scores[rows] += idf * counts / (counts + self._norms[rows])
        return scores


def _as_kept(lengths: NDArray[np.float64]) -> NDArray[np.float64]:
    """Lengths as Lucene keeps them in a byte: those of more than 40 terms with 4 leading bits.

    So passages of like length have equal scores more often.
    """
    shift = np.maximum(0, np.floor(np.log2(np.maximum(lengths - 24, 1))) - 3)
    return np.where(lengths <= 40, lengths, 24 + np.floor((lengths - 24) / 2**shift) * 2**shift)
