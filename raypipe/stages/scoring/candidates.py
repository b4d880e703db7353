"""The candidates of a run that a reranker is asked to score, in order, and their stored scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe import schema
from raypipe.errors import IncompleteError
from raypipe.stages.stage import Expectations
from raypipe.stages.tables import num_lines
from raypipe.storage.payloads import read_table
from raypipe.storage.records import Json
from raypipe.storage.store import Stored

if TYPE_CHECKING:
    from raypipe.ranking.candidates import Keys


Int64 = NDArray[np.int64]
BLOCK_QUERIES = 1_000
"""Queries whose candidates a worker holds at once: pairs of 50 candidates take 60 MB."""


class Candidates(Protocol):
    """The candidates of a score stage; rows number them from 0 in the order of keys."""

    @property
    def num_rows(self) -> int:
        """Their number."""

    def keys(self, start: int, stop: int) -> Keys:
        """The keys of rows [start, stop): (query row, passage row, other row), sorted."""

    def passages(self) -> Int64:
        """The rows of their passages, ascending, each once."""

    def expected_rows(self, expectations: Expectations) -> int:
        """Their number; at most, if they cannot be read."""

    def expected_passages(self, expectations: Expectations) -> int:
        """The number of their passages; if they cannot be read, as if all were different."""

    def stores(self) -> dict[str, Stored]:
        """The stores that they are read from, by names in a spec."""

    def to_json(self) -> dict[str, Json]:
        """The settings in a spec."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The candidates of a run that are requested."""

    k0: int | None = None
    """For a monoBERT model: the first k0."""
    k1: int | None = None
    """For a duoBERT model: every ordered pair of the first k1."""
    sample: int | None = None
    """For a duoBERT model: the number of pairs drawn for each candidate."""
    seed: int = 0

    @property
    def k(self) -> int:
        """Number of candidates per query that are reordered."""
        k = self.k0 if self.k1 is None else self.k1
        assert k is not None
        return k

    def keys(self, run: pa.Table) -> Keys:
        """The requested candidates of a run (schema.RUN), sorted."""
        from raypipe.ranking.candidates import pairs, singles

        columns = [run[name].to_numpy() for name in ("query_row", "passage_row", "rank")]
        if self.k1 is None:
            return singles(*columns, k0=self.k)
        return pairs(*columns, k1=self.k1, sample=self.sample, seed=self.seed)

    def num_keys(self, run: pa.Table) -> int:
        """The number of the requested candidates of a run (schema.RUN)."""
        return int(self.counts(run, 1 + int(run["query_row"].to_numpy().max(initial=-1))).sum())

    def counts(self, run: pa.Table, num_queries: int) -> Int64:
        """The number of the requested candidates of each query row, int64 [num_queries]."""
        query_rows = run["query_row"].to_numpy()[run["rank"].to_numpy() <= self.k]
        lengths = np.bincount(query_rows, minlength=num_queries).astype(np.int64)
        if self.k1 is None:
            return lengths
        others = lengths - 1 if self.sample is None else np.minimum(self.sample, lengths - 1)
        counts: Int64 = lengths * others
        return counts

    def to_json(self) -> dict[str, Json]:
        """The request in a fingerprint; a seed matters only for a draw."""
        body: dict[str, Json] = {"k0": self.k0, "k1": self.k1, "sample": self.sample}
        return {**body, "seed": None if self.sample is None else self.seed}

    def num_candidates(self, run: Stored) -> int:
        """At most, from the run's records; exactly, if no query's list is shorter than `k`."""
        lines = num_lines(run)
        first = min(lines, self.k * run.num_rows)
        if self.k1 is None:
            return first
        others = max(0, min(self.k1, lines) - 1)
        return first * (others if self.sample is None else min(self.sample, others))


class RunCandidates:
    """The requested candidates of a run."""

    def __init__(self, run: Stored, request: Request) -> None:
        """Reads nothing yet."""
        self.run, self.request = run, request
        self._edges: Int64 | None = None
        self._block: tuple[int, int, Keys] | None = None

    def __getstate__(self) -> tuple[Stored, Request, Int64 | None]:
        """With the numbers of all queries, so that no worker reads the whole run for them again."""
        return self.run, self.request, self._edges

    def __setstate__(self, state: tuple[Stored, Request, Int64 | None]) -> None:
        """The state that __getstate__ left, without what is read again."""
        RunCandidates.__init__(self, *state[:2])
        self._edges = state[2]

    @property
    def num_rows(self) -> int:
        """The number of candidates."""
        return int(self._first_rows()[-1])

    def keys(self, start: int, stop: int) -> Keys:
        """The keys of rows [start, stop); a block's are kept for the next rows."""
        slices = []
        while start < stop:
            first, last, keys = self._block_at(start)
            end = min(stop, last)
            slices.append(tuple(column[start - first : end - first] for column in keys))
            start = end
        columns = (
            zip(*slices, strict=True) if slices else ([np.empty(0, np.int64)] for _ in range(3))
        )
        first_column, second, third = (np.concatenate(parts) for parts in columns)
        return first_column, second, third

    def passages(self) -> Int64:
        """The rows of their passages, each once."""
        parts = [np.empty(0, np.int64)]
        for table in self._tables("passage_row", "rank"):
            rows = table["passage_row"].to_numpy()
            parts.append(np.unique(rows[table["rank"].to_numpy() <= self.request.k]))
        return np.unique(np.concatenate(parts))

    def expected_rows(self, expectations: Expectations) -> int:
        """The number of candidates that there will be."""
        if expectations.has(self.run):
            return self.num_rows
        return self.request.num_candidates(self.run)

    def expected_passages(self, expectations: Expectations) -> int:
        """The number of passages that there will be."""
        if expectations.has(self.run):
            return len(self.passages())
        return min(num_lines(self.run), self.request.k * self.run.num_rows)

    def stores(self) -> dict[str, Stored]:
        """The run that they are read from."""
        return {"run": self.run}

    def to_json(self) -> dict[str, Json]:
        """The request, as it stands in a spec."""
        return self.request.to_json()

    def _tables(self, *columns: str) -> Iterator[pa.Table]:
        for record in self.run.manifest.records:
            yield read_table(self.run.path(record), schema.RUN, columns=columns)

    def _first_rows(self) -> Int64:
        """The row of each query's first candidate, and the number of all: int64 [queries + 1]."""
        if self._edges is None:
            counts = np.zeros(self.run.num_rows, np.int64)
            for table in self._tables("query_row", "rank"):
                counts += self.request.counts(table, self.run.num_rows)
            self._edges = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        return self._edges

    def _block_at(self, row: int) -> tuple[int, int, Keys]:
        """First row, last row + 1 and keys of the block of queries that has this row."""
        from raypipe.stages.run_tables import read_queries_of_run

        if self._block is None or not self._block[0] <= row < self._block[1]:
            edges = self._first_rows()
            query = int(np.searchsorted(edges, row, side="right")) - 1
            start = query - query % BLOCK_QUERIES
            stop = min(start + BLOCK_QUERIES, self.run.num_rows)
            keys = self.request.keys(read_queries_of_run(self.run, start, stop))
            self._block = int(edges[start]), int(edges[stop]), keys
        return self._block


def rows_of(candidates: Candidates, rows: Sequence[int]) -> Keys:
    """The keys of scattered rows, in their order."""
    keys = [candidates.keys(row, row + 1) for row in rows]
    none = np.empty(0, np.int64)
    first, second, third = (
        np.concatenate([none, *(key[side] for key in keys)]) for side in range(3)
    )
    return first, second, third


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
