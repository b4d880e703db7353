"""The stored scores of a request's candidates, read by query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe import schema
from raypipe.errors import IncompleteError
from raypipe.stages.scoring.candidates import Candidates, rows_of
from raypipe.storage.payloads import read_table
from raypipe.storage.store import Stored

if TYPE_CHECKING:
    from raypipe.ranking.candidates import Keys


@dataclass(frozen=True)
class Scored:
    """Candidates and the store with one score for each."""

    candidates: Candidates
    stored: Stored

    def table(self, start: int, stop: int) -> pa.Table:
        """Scores (schema.SCORES) of query rows [start, stop), and some of other rows."""
        tables = [
            read_table(self.stored.path(record), schema.SCORES)
            for record in self.stored.manifest.records
            if record.facts["first_query"] < stop and record.facts["last_query"] >= start
        ]
        return pa.concat_tables(tables) if tables else schema.SCORES.empty_table()

    def find(
        self, wanted: Keys, queries: tuple[int, int], *, what: str
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """(scores float32 [N], NaN for a missing one; whether each is in quarantine, bool [N]).

        Candidates in quarantine have no score and are never ranked.

        Raises:
            IncompleteError: some candidates have no score; the message gives their number.
        """
        from raypipe.ranking.candidates import missing, positions

        table = self.table(*queries)
        places = positions(wanted, keys_of(table))
        scores = np.full(len(places), np.nan, np.float32)
        is_scored = places >= 0
        scores[is_scored] = table["score"].to_numpy()[places[is_scored]]
        skipped = rows_of(self.candidates, self.stored.manifest.skipped_rows)
        failed = ~is_scored & ~missing(wanted, skipped)
        lacking = int((~is_scored & ~failed).sum())
        if lacking:
            raise IncompleteError(
                f"{what}: {lacking} of {len(places)} candidates have no score; score them first: "
                "a missing score is never made up"
            )
        return scores, failed


def keys_of(table: pa.Table) -> Keys:
    """The key columns of scores, int64."""
    names = ("query_row", "passage_row", "other_row")
    first, second, third = (table[name].to_numpy().astype(np.int64) for name in names)
    return first, second, third
