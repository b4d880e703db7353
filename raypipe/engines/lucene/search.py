"""BM25 over a Lucene index, or products of impacts: exact scores, ties by passage row.

With RM3, a query is expanded by the words of the passages that it finds first.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raypipe.engines.lucene.index import ROWS_FILE, analyzer_of, language_of
from raypipe.engines.lucene.java import open_reader, start_jvm

MAX_CLAUSES = 1 << 20
"""Limit for the words of one query; Lucene's own limit of 1,024 is too low for long queries."""
FIRST = 50
"""How many passages Anserini's first search returns (rerankcutoff); most that can give words."""
FIELD = "contents"
Found = tuple[NDArray[np.int64], NDArray[np.float32]]
"""(passage rows, scores) of a query, best first, ties by row."""
Lines = tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.float32]]
"""(query positions, passage rows, scores) of queries, in order, best first."""


@dataclass(frozen=True, slots=True)
class Feedback:
    """RM3's settings, by pyserini's names and with its defaults (`set_rm3`).

    Source: Abdul-Jaleel et al. 2004, as Anserini has it.
    """

    fb_terms: int = 10
    """Number of words in the expanded query besides its own."""
    fb_docs: int = 10
    """Number of passages that they are taken from."""
    original_query_weight: float = 0.5
    """Weight of the query's own words, from 0 to 1."""
    filter_terms: bool = True
    """Whether only words of the letters a to z and digits are taken."""

    def to_json(self) -> dict[str, Any]:
        """The settings in a fingerprint."""
        return asdict(self)


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
        self._products = autoclass("io.anserini.search.similarity.ImpactSimilarity")()
        self._generator = autoclass("io.anserini.search.query.BagOfWordsQueryGenerator")()
        self._analyzer = analyzer_of(self._lucene, language_of(folder))
        sorts = autoclass("org.apache.lucene.search.SortField")
        by_id = sorts("id", autoclass("org.apache.lucene.search.SortField$Type").STRING_VAL)
        self._order = autoclass("org.apache.lucene.search.Sort")(sorts.FIELD_SCORE, by_id)
        self.rows: NDArray[np.int64] = np.load(folder / ROWS_FILE)
        """Passage row of each document."""

    def search(
        self, query: str, *, k1: float, b: float, depth: int, rm3: Feedback | None = None
    ) -> Found:
        """(passage rows, scores), best first, ties by row; empty if no word is found.

        The index has one segment in row order. So Lucene's own rule for ties, the smaller document
        number first, orders them by row, also at the cut. Scores are Lucene's float32. With `rm3`
        they are those of the expanded query.
        """
        self._searcher.setSimilarity(self._similarity(k1, b))
        parsed = self._generator.buildQuery(FIELD, self._analyzer, query)
        if rm3 is not None:
            found, of_found = self._expanded(query, parsed, rm3, depth)
            return self.rows[found], of_found
        return self._best(parsed, depth)

    def search_impacts(self, words: Iterable[int], impacts: Iterable[int], *, depth: int) -> Found:
        """The same, of a query's impacts in an index of IMPACTS; a score is a sum of products.

        A product is below 2^24 and so exact in float32. Lucene adds in float64 and rounds the sum.
        """
        autoclass, _ = self._lucene
        weights, number = autoclass("java.util.HashMap")(), autoclass("java.lang.Float")
        for word, impact in zip(words, impacts, strict=True):
            weights.put(str(word), number(float(impact)))
        self._searcher.setSimilarity(self._products)
        return self._best(self._generator.buildQuery(FIELD, weights), depth)

    def _best(self, parsed: Any, depth: int) -> Found:
        hits = self._searcher.search(parsed, depth).scoreDocs
        documents = np.fromiter((hit.doc for hit in hits), np.int64, count=len(hits))
        scores = np.fromiter((hit.score for hit in hits), np.float32, count=len(hits))
        return self.rows[documents], scores

    def _expanded(
        self, text: str, parsed: Any, rm3: Feedback, depth: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """(Lucene documents, scores) of the expanded query, best first, ties by document.

        Anserini sorts equal scores by id, as text. That order counts for the passages that give
        words, as it does there; ties of the result are by document, also at the cut.
        """
        autoclass, _ = self._lucene
        first = self._searcher.search(parsed, FIRST, self._order, True)
        tables = autoclass("io.anserini.search.ScoredDocs")
        docs = tables.fromTopDocs(first, self._searcher)
        tokens = autoclass("io.anserini.analysis.AnalyzerUtils").analyze(self._analyzer, text)
        arguments = autoclass("io.anserini.search.SearchCollection$Args", include_protected=True)()
        context = autoclass("io.anserini.rerank.RerankerContext")
        reranker = autoclass("io.anserini.rerank.lib.Rm3Reranker")(
            *(self._analyzer, None, FIELD, rm3.fb_terms, rm3.fb_docs),
            *(rm3.original_query_weight, False, rm3.filter_terms),
        )
        hits = depth + 1
        while True:
            arguments.hits = hits
            asked = context(self._searcher, None, parsed, None, text, tokens, None, arguments)
            found = reranker.rerank(docs, asked)
            documents = np.array(list(found.lucene_docids), np.int64)
            scores = np.array(list(found.scores), np.float32)
            if len(scores) < hits or scores[depth - 1] > scores[-1]:
                break
            hits *= 2  # a tie at the cut goes on below: its smallest documents may be further down
        best = np.lexsort((documents, -scores))[:depth]
        return documents[best], scores[best]

    def close(self) -> None:
        """Close the index's files; nothing can be searched afterwards."""
        self._reader.close()


def search_all(
    searcher: LuceneSearcher,
    queries: Sequence[str],
    *,
    k1: float,
    b: float,
    depth: int,
    rm3: Feedback | None = None,
) -> Lines:
    """(query positions, passage rows, scores) of all queries, in order, best first."""
    return lines_of([searcher.search(query, k1=k1, b=b, depth=depth, rm3=rm3) for query in queries])


def lines_of(results: Sequence[Found]) -> Lines:
    """The lines of queries, by what each found."""
    lengths = [len(rows) for rows, _ in results]
    positions = np.repeat(np.arange(len(results), dtype=np.int32), lengths)
    rows = np.concatenate([rows for rows, _ in results] or [np.empty(0, np.int64)])
    scores = np.concatenate([scores for _, scores in results] or [np.empty(0, np.float32)])
    return positions, rows, scores
