"""One run (`schema.RUN`) as checked, sorted columns, whose queries are found in O(log n)."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe.errors import InputError
from raypipe.ranking.order import Float32, Int64, check_finite, ranks
from raypipe.ranking.rules import Ranking


class Run:
    """A run's columns by (query row, rank)."""

    def __init__(self, table: pa.Table, *, name: str) -> None:
        """Sorts the table's columns; `name` is the run's name in messages."""
        queries = table["query_row"].to_numpy()
        rank = table["rank"].to_numpy()
        stages = table["scored_by"].combine_chunks().dictionary_encode()
        by_rank = np.lexsort((rank, queries))
        self.name = name
        self.queries: NDArray[np.int32] = queries[by_rank]
        self.rows: Int64 = table["passage_row"].to_numpy()[by_rank]
        self.scores: Float32 = table["score"].to_numpy()[by_rank]
        self.rank: NDArray[np.int32] = rank[by_rank]
        self.stages: list[str] = stages.dictionary.to_pylist()
        self.scored_by: NDArray[np.int32] = stages.indices.to_numpy()[by_rank]
        self.query_rows, starts = np.unique(self.queries, return_index=True)
        self._bounds = np.append(starts, len(self.queries))

    def ranking(self, query_row: int) -> Ranking:
        """The query's candidates, best first; empty if the run lacks the query."""
        at = int(np.searchsorted(self.query_rows, query_row))
        if at == len(self.query_rows) or self.query_rows[at] != query_row:
            return Ranking(self.rows[:0], self.scores[:0])
        span = slice(self._bounds[at], self._bounds[at + 1])
        return Ranking(self.rows[span], self.scores[span])

    def mixed_scales(self) -> Iterator[str]:
        """A problem if different stages scored one query's lines."""
        mixed = (self.scored_by[1:] != self.scored_by[:-1]) & (
            self.queries[1:] == self.queries[:-1]
        )
        if mixed.any():
            found = np.unique(self.queries[1:][mixed])
            yield (
                f"{self.name}: {len(found)} queries (first: query_row {found[0]}) hold scores of "
                f"several stages ({', '.join(self.stages)}), which do not "
                "compare; cut the run with `tail: drop`, or use alternate or rrf"
            )

    def problems(self) -> Iterator[str]:
        """The problems of an invalid ranking: scores that are not finite, wrong ranks, repeats."""
        try:
            check_finite(self.scores)
        except InputError as error:
            yield f"{self.name}: {error}"
        expected = ranks(self.queries)
        wrong = np.flatnonzero(self.rank != expected)
        if len(wrong):
            yield (
                f"{self.name}: query_row {self.queries[wrong[0]]}: expected ranks 1, 2, 3, ... "
                f"each once; found {self.rank[wrong[0]]} in place of {expected[wrong[0]]}; "
                "write the run again from its scores"
            )
        pairs = np.lexsort((self.rows, self.queries))
        queries, rows = self.queries[pairs], self.rows[pairs]
        twice = np.flatnonzero((queries[1:] == queries[:-1]) & (rows[1:] == rows[:-1]))
        if len(twice):
            shown = ", ".join(f"({queries[at]}, {rows[at]})" for at in twice[:10])
            yield (
                f"{self.name}: {len(twice)} repeated (query_row, passage_row): {shown}; "
                "a passage may be ranked once per query"
            )
