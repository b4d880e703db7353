"""BM25 over a Lucene index: exact scores, ties by passage row."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from raypipe.engines.lucene.analyzers import analyzer_of, language_of
from raypipe.engines.lucene.feedback import FIELD, Feedback, Rm3
from raypipe.engines.lucene.index import ROWS_FILE
from raypipe.engines.lucene.java import open_reader, start_jvm, stored_ids

MAX_CLAUSES = 1 << 20
"""Limit for the words of one query; Lucene's own limit of 1,024 is too low for long queries."""


class LuceneSearcher:
    """An opened index folder; BM25's settings may change between searches."""

    def __init__(self, folder: Path) -> None:
        """Starts this process's JVM if it is not running."""
        self._lucene = autoclass, cast = start_jvm()
        self._reader = open_reader(self._lucene, str(folder))
        searcher = autoclass("org.apache.lucene.search.IndexSearcher")
        searcher.setMaxClauseCount(MAX_CLAUSES)
        self._searcher = searcher(cast("org.apache.lucene.index.IndexReader", self._reader))
        self._similarity = autoclass("org.apache.lucene.search.similarities.BM25Similarity")
        self._generator = autoclass("io.anserini.search.query.BagOfWordsQueryGenerator")()
        self._analyzer = analyzer_of(self._lucene, language_of(folder))
        self._feedback = Feedback(self._lucene, self._searcher, self._analyzer)
        self.rows: NDArray[np.int64] = np.load(folder / ROWS_FILE)
        """Passage row of each document."""
        self.num_documents: int = self._reader.maxDoc()
        self.num_segments: int = self._reader.leaves().size()

    def search(
        self, query: str, *, k1: float, b: float, depth: int, rm3: Rm3 | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """(passage rows, scores), best first, ties by row; empty if no word is found.

        The index has one segment in row order. So Lucene's own rule for ties, the smaller document
        number first, orders them by row, also at the cut. Scores are Lucene's float32. With `rm3`
        they are those of the expanded query.
        """
        self._searcher.setSimilarity(self._similarity(k1, b))
        parsed = self._generator.buildQuery(FIELD, self._analyzer, query)
        if rm3 is not None:
            found, of_found = self._feedback.search(query, parsed, rm3, depth)
            return self.rows[found], of_found
        hits = self._searcher.search(parsed, depth).scoreDocs
        documents = np.fromiter((hit.doc for hit in hits), np.int64, count=len(hits))
        scores = np.fromiter((hit.score for hit in hits), np.float32, count=len(hits))
        return self.rows[documents], scores

    def close(self) -> None:
        """Close the index's files; nothing can be searched afterwards."""
        self._reader.close()

    def stored_ids(self, documents: Iterable[int]) -> list[str]:
        """The ids of documents as the index itself holds them, in the order given."""
        return stored_ids(self._lucene, self._reader, documents)


def search_all(
    searcher: LuceneSearcher,
    queries: Sequence[str],
    *,
    k1: float,
    b: float,
    depth: int,
    rm3: Rm3 | None = None,
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.float32]]:
    """(query positions, passage rows, scores) of all queries, in order, best first."""
    found = [searcher.search(query, k1=k1, b=b, depth=depth, rm3=rm3) for query in queries]
    lengths = [len(rows) for rows, _ in found]
    positions = np.repeat(np.arange(len(queries), dtype=np.int32), lengths)
    rows = np.concatenate([rows for rows, _ in found] or [np.empty(0, np.int64)])
    scores = np.concatenate([scores for _, scores in found] or [np.empty(0, np.float32)])
    return positions, rows, scores
