"""RM3: a query expanded by the words of the passages that it finds first."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raypipe.engines.lucene.java import Lucene

FIRST = 50
"""How many passages Anserini's first search returns (rerankcutoff); most that can give words."""
FIELD = "contents"


@dataclass(frozen=True, slots=True)
class Rm3:
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


class Feedback:
    """Anserini's RM3 over an opened index."""

    def __init__(self, lucene: Lucene, searcher: Any, analyzer: Any) -> None:
        """Args: jnius' functions, Lucene's searcher with its similarity, and the analyzer."""
        self._autoclass, _ = lucene
        self._searcher, self._analyzer = searcher, analyzer
        sorts = self._autoclass("org.apache.lucene.search.SortField")
        kind = self._autoclass("org.apache.lucene.search.SortField$Type").STRING_VAL
        by_id = sorts("id", kind)
        self._order = self._autoclass("org.apache.lucene.search.Sort")(sorts.FIELD_SCORE, by_id)

    def search(
        self, text: str, parsed: Any, rm3: Rm3, depth: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """(Lucene documents, scores) of the expanded query, best first, ties by document.

        Anserini sorts equal scores by id, as text. That order counts for the passages that give
        words, as it does there; ties of the result are by document, also at the cut.
        """
        first = self._searcher.search(parsed, FIRST, self._order, True)
        if not len(first.scoreDocs):
            return np.empty(0, np.int64), np.empty(0, np.float32)
        tables = self._autoclass("io.anserini.search.ScoredDocs")
        docs = tables.fromTopDocs(first, self._searcher)
        tokens = self._autoclass("io.anserini.analysis.AnalyzerUtils").analyze(self._analyzer, text)
        arguments = self._autoclass(
            "io.anserini.search.SearchCollection$Args", include_protected=True
        )()
        context = self._autoclass("io.anserini.rerank.RerankerContext")
        reranker = self._autoclass("io.anserini.rerank.lib.Rm3Reranker")(
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
