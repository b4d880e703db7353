"""Scores of older tables, found by the texts of their query and passages."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe import schema
from raypipe.ranking.candidates import Keys, positions
from raypipe.stages.ids import Hashes, TextHashes
from raypipe.stages.reuse.source import hashes_of_collection, origin_of
from raypipe.stages.scoring.candidates import keys_of
from raypipe.storage.payloads import read_table
from raypipe.storage.store import Stored

Int64 = NDArray[np.int64]


@dataclass(frozen=True)
class OlderScores:
    """One older part of a table, over an older collection and query set."""

    scores: Stored
    hashes: Stored
    queries: Stored


def older_scores(stored: Stored) -> OlderScores | None:
    """The part with the texts that its rows mean; None if their stores are gone."""
    collection, queries = (origin_of(stored, name) for name in ("collection", "queries"))
    hashes = None if collection is None else hashes_of_collection(collection)
    if hashes is None or queries is None:
        return None
    return OlderScores(stored, hashes, queries)


class ScoresByText:
    """Older scores in a worker, for candidates of the present collection and query set."""

    def __init__(
        self, older: Sequence[OlderScores], hashes: Stored, queries: Stored, numerics: str
    ) -> None:
        """Maps all hashes; only shards of the class `numerics` are copied from."""
        self._now = TextHashes(hashes)
        self._parts = [_Part(part, self._now.hashes, queries, numerics) for part in older]

    def text_keys(self, keys: Keys) -> Int64:
        """Numbers [n, 3] that are equal for candidates of one query with equal texts."""
        now, (query, *passages) = self._now, keys
        firsts = [_through(rows, lambda r: now.first_rows(now.hashes[r])) for rows in passages]
        return np.stack([query, *firsts], axis=1)

    def find(self, keys: Keys) -> NDArray[np.float32]:
        """The score of each candidate, float32 [n]; NaN where no older part has it."""
        scores = np.full(len(keys[0]), np.nan, np.float32)
        for part in self._parts:
            waiting = np.flatnonzero(np.isnan(scores))
            first, second, third = (column[waiting] for column in keys)
            scores[waiting] = part.find((first, second, third))
        return scores


class _Part:
    def __init__(self, older: OlderScores, now: Hashes, queries: Stored, numerics: str) -> None:
        self._stored, self._now, self._before = older.scores, now, TextHashes(older.hashes)
        before, texts = (_query_texts(stored) for stored in (older.queries, queries))
        row_of = {text: row for row, text in enumerate(before)}
        self._one_query = np.array([row_of[text] for text in before], np.int64)
        self._query = np.array([row_of.get(text, -1) for text in texts], np.int64)
        self._records = [
            record
            for record in older.scores.manifest.records
            if record.facts["numerics"] == numerics
        ]

    def find(self, keys: Keys) -> NDArray[np.float32]:
        """The scores of these keys; see ScoresByText.find."""
        before = self._as_before(keys)
        table = self._held(before[0])
        first, second, third = keys_of(table)
        passage, other = (_through(rows, self._first_row) for rows in (second, third))
        place = positions(before, (self._one_query[first], passage, other))
        scores = np.full(len(place), np.nan, np.float32)
        # The second passage of a single is -1, and so is one that does not exist there.
        present = (place >= 0) & ((keys[2] < 0) | (before[2] >= 0))
        scores[present] = table["score"].to_numpy()[place[present]]
        return scores

    def _as_before(self, keys: Keys) -> Keys:
        """The candidates in the older rows that first had their texts; -1 for none."""
        query, *passages = keys
        first, second = (
            _through(rows, lambda r: self._before.first_rows(self._now[r])) for rows in passages
        )
        return self._query[query], first, second

    def _first_row(self, rows: Int64) -> Int64:
        return self._before.first_rows(self._before.hashes[rows])

    def _held(self, queries: Int64) -> pa.Table:
        """Older scores of these queries, and some of others."""
        rows = np.flatnonzero(np.isin(self._one_query, queries))
        tables = [
            read_table(self._stored.path(record), schema.SCORES)
            for record in self._records
            if len(rows)
            and record.facts["first_query"] <= rows.max()
            and record.facts["last_query"] >= rows.min()
        ]
        return pa.concat_tables(tables) if tables else schema.SCORES.empty_table()


def _query_texts(queries: Stored) -> list[str]:
    texts: list[str] = queries.table(schema.QUERIES)["text"].to_pylist()
    return texts


def _through(rows: Int64, function: Callable[[Int64], Int64]) -> Int64:
    """The function of the rows that are not -1, which stay -1."""
    places = np.full(len(rows), -1, np.int64)
    places[rows >= 0] = function(rows[rows >= 0])
    return places
