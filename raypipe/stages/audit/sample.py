"""Which of a stage's scores are computed again: whole queries, up to a stated cost."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from raypipe import schema
from raypipe.ranking.candidates import Keys
from raypipe.ranking.rerank import lines_of
from raypipe.stages.scoring.candidates import keys_of
from raypipe.storage.payloads import read_table
from raypipe.storage.store import Stored

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Limits:
    """What an audit may cost; it has one query at least, if there is one."""

    queries: int
    """Queries at most."""
    inputs: int
    """Inputs of the model at most."""


@dataclass(frozen=True)
class Scored:
    """The scores of a stage: the lines of a run that it scored, or a duoBERT model's pairs."""

    stored: Stored
    by: str
    """The stage's name, as its lines have it."""
    pairs: bool = False
    first: int | None = None
    """Only so many lines of each query; None means all that it scored."""

    def table(self, queries: Int64) -> pa.Table:
        """All lines or pairs of these queries, schema.RUN or schema.SCORES, in order.

        Each shard is read once, and only if it has one of them.
        """
        columns = schema.SCORES if self.pairs else schema.RUN
        parts = [columns.empty_table()]
        for record in self.stored.manifest.records:
            shard = record.shard
            if np.any((queries >= shard.start) & (queries < shard.stop)):
                table = read_table(self.stored.path(record), columns)
                kept = np.isin(table["query_row"].to_numpy(), queries)
                parts.append(table.filter(pa.array(kept)))
        return pa.concat_tables(parts)

    def mask(self, run: pa.Table) -> NDArray[np.bool_]:
        """Which lines of a run's table are the stage's, of its first lines, bool [N]."""
        own: NDArray[np.bool_] = pc.equal(run["scored_by"], self.by).to_numpy().astype(np.bool_)
        return own if self.first is None else own & (run["rank"].to_numpy() <= self.first)

    def keys(self, table: pa.Table) -> Keys:
        """The candidates of a table of `table`."""
        return keys_of(table) if self.pairs else lines_of(table.filter(pa.array(self.mask(table))))

    def counts(self, num_queries: int) -> Int64:
        """The number of candidates of each query, int64 [num_queries]; a shard in memory."""
        found = np.zeros(num_queries, np.int64)
        columns = schema.SCORES if self.pairs else schema.RUN
        for record in self.stored.manifest.records:
            queries = self.keys(read_table(self.stored.path(record), columns))[0]
            found += np.bincount(queries, minlength=num_queries)
        return found


def chosen(inputs: Int64, limits: Limits) -> Int64:
    """Rows of queries with inputs, evenly spaced among all such queries, ascending.

    As many as the limits allow, but one at least; the same for the same inputs.

    Args:
        inputs: the number of inputs that each query's scores take, int64 [Q].
        limits: of their sum, and of the number of queries.
    """
    rows = np.flatnonzero(inputs)
    for number in range(min(limits.queries, len(rows)), 1, -1):
        found = rows[np.arange(number) * len(rows) // number]
        if inputs[found].sum() <= limits.inputs:
            return found
    return rows[: min(1, limits.queries)]
