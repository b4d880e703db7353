"""Requests for candidates: which of a run's a reranker is asked to score."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe.ranking.candidates import Keys, pairs, singles
from raypipe.stages.query_blocks import num_lines
from raypipe.storage.records import Json, canonical, digest
from raypipe.storage.store import Stored


class Asking(Protocol):
    """What a growing table has to know of a request for candidates of a run."""

    def keys(self, run: pa.Table) -> Keys:
        """The requested candidates of a run (schema.RUN), sorted."""

    def num_candidates(self, run: Stored) -> int:
        """An upper bound of their number."""

    def digest(self, run: Stored) -> str:
        """The name of this request for that run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Which candidates of a run are requested."""

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
        found = self.k0 if self.k1 is None else self.k1
        assert found is not None
        return found

    def keys(self, run: pa.Table) -> Keys:
        """The requested candidates of a run (schema.RUN), sorted."""
        columns = [run[name].to_numpy() for name in ("query_row", "passage_row", "rank")]
        if self.k1 is None:
            return singles(*columns, k0=self.k)
        return pairs(*columns, k1=self.k1, sample=self.sample, seed=self.seed)

    def num_keys(self, run: pa.Table) -> int:
        """The number of the requested candidates of a run (schema.RUN)."""
        kept = run["query_row"].to_numpy()[run["rank"].to_numpy() <= self.k]
        lengths = np.unique(kept, return_counts=True)[1].astype(np.int64)
        if self.k1 is None:
            return len(kept)
        others = lengths - 1 if self.sample is None else np.minimum(self.sample, lengths - 1)
        return int((lengths * others).sum())

    def expected(self, lines: NDArray[np.float64]) -> NDArray[np.float64]:
        """The number of candidates of queries with so many lines each, whole or expected."""
        first: NDArray[np.float64] = np.minimum(self.k, lines)
        if self.k1 is None:
            return first
        others: NDArray[np.float64] = np.maximum(0.0, first - 1)
        return first * others if self.sample is None else first * np.minimum(self.sample, others)

    def to_json(self) -> dict[str, Json]:
        """The request in a fingerprint; a seed matters only for a draw."""
        body: dict[str, Json] = {"k0": self.k0, "k1": self.k1, "sample": self.sample}
        return {**body, "seed": None if self.sample is None else self.seed}

    def num_candidates(self, run: Stored) -> int:
        """An upper bound: the number of lines, for a duoBERT model times the pairs of each."""
        if self.k1 is None:
            return num_lines(run)
        others = self.k1 - 1 if self.sample is None else min(self.sample, self.k1 - 1)
        return min(num_lines(run), self.k1 * run.num_rows) * others

    def digest(self, run: Stored) -> str:
        """The name of this request for that run."""
        return digest(canonical({**self.to_json(), "run": run.identity}))
