"""Runs over the training queries: the sources of negatives and of a teacher's scores."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from raypipe.stages.run_tables import read_queries_of_run
from raypipe.storage.store import Stored
from raypipe.training.examples.table import pair_keys

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Float32 = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Ranking:
    """A run over the training queries, by query row, then rank."""

    query_rows: Int32
    passage_rows: Int64
    ranks: Int32
    scores: Float32

    def without(self, passages: Int64) -> "Ranking":
        """The ranking without these passages; the others keep their ranks."""
        return self._kept(~np.isin(self.passage_rows, passages))

    def upto(self, last: int) -> "Ranking":
        """Ranks 1 to `last` of each query."""
        return self._kept(self.ranks <= last)

    def _kept(self, keep: NDArray[np.bool_]) -> "Ranking":
        return Ranking(
            self.query_rows[keep], self.passage_rows[keep], self.ranks[keep], self.scores[keep]
        )


def ranking_of(stored: Stored) -> Ranking:
    """The ranking in a run's store, held in memory: 20 bytes per line."""
    table = read_queries_of_run(stored, 0, stored.num_rows)
    names = ("query_row", "passage_row", "rank", "score")
    return Ranking(*(table[name].to_numpy() for name in names))


class Taught:
    """A teacher's scores by pair: 12 bytes each."""

    def __init__(self, run: Ranking) -> None:
        """Sorts the pairs."""
        keys = pair_keys(run.query_rows.astype(np.int64), run.passage_rows)
        order = np.argsort(keys)
        self._keys, self._scores = keys[order], run.scores[order]

    def of(self, query: int, passages: Sequence[int]) -> list[float]:
        """The scores of a query's passages, NaN for a missing one."""
        rows = np.array(passages, np.int64)
        scores: list[float] = self.of_pairs(np.full(len(rows), query), rows).tolist()
        return scores

    def of_pairs(self, query_rows: Int64, passage_rows: Int64) -> Float32:
        """The score of each pair, float32, NaN for a missing one."""
        wanted = pair_keys(query_rows, passage_rows)
        if not len(self._keys):
            return np.full(len(wanted), np.nan, np.float32)
        places = np.searchsorted(self._keys, wanted).clip(max=len(self._keys) - 1)
        found: Float32 = np.where(self._keys[places] == wanted, self._scores[places], np.nan)
        return found.astype(np.float32)
