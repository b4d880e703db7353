"""Scores of candidates by hand."""

import numpy as np

from raypipe import schema
from raypipe.stages.scoring.candidates import Scored
from raypipe.storage.spec import StageSpec

BASE = StageSpec("scores", 1, {"weights_sha256": "w"})


# Query 0 ranks passages 30, 10, 20, 40; query 1 ranks 20, 30; query 2 ranks 50 alone.
BLOCKS = (
    [(0, 30, 9.0), (0, 10, 8.0), (0, 20, 7.0), (0, 40, 6.0)],
    [(1, 20, 5.0), (1, 30, 4.0), (2, 50, 3.0)],
)


class Given:
    """Candidates (query, passage, other passage or -1) that a test names one by one."""

    def __init__(self, *lines):
        columns = [[line[side] for line in lines] for side in range(3)]
        self.columns = [np.array(column, np.int64) for column in columns]
        self.num_rows = len(lines)

    def keys(self, start, stop):
        return tuple(column[start:stop] for column in self.columns)

    def passages(self):
        rows = np.unique(np.concatenate(self.columns[1:]))
        return rows[rows >= 0]

    def stores(self):
        return {}

    def to_json(self):
        return {"lines": [column.tolist() for column in self.columns]}


def scored_of(stores, lines, *, blocks=None, skipped=()):
    """Scores of lines (query, passage, other, score), in shards that begin at `blocks`."""
    edges = [0, *(blocks or []), len(lines)]
    tables, facts = [], []
    for start, stop in zip(edges, edges[1:], strict=False):
        own = [line for n, line in enumerate(lines[start:stop], start) if n not in skipped]
        tables.append([[line[i] for line in own] for i in range(4)])
        first, last = (own[0][0], own[-1][0]) if own else (-1, -1)
        facts.append({"rows": len(own), "first_query": first, "last_query": last})
    ranges = list(zip(edges, edges[1:], strict=False))
    scores = stores.tables(schema.SCORES, *tables, ranges=ranges, facts=facts, skipped=skipped)
    return Scored(Given(*lines), scores)


def lines_of(stored, columns=schema.RUN):
    return [tuple(row.values()) for row in stored.whole_table(columns).to_pylist()]
