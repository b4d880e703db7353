"""Scores of candidates by hand, as the parts of a table."""

from raypipe import schema
from raypipe.stages.scoring.candidates import (
    Part,
)
from raypipe.storage.spec import StageSpec

BASE = StageSpec("scores", 1, {"weights_sha256": "w"})


# Query 0 ranks passages 30, 10, 20, 40; query 1 ranks 20, 30; query 2 ranks 50 alone.
BLOCKS = (
    [(0, 30, 9.0), (0, 10, 8.0), (0, 20, 7.0), (0, 40, 6.0)],
    [(1, 20, 5.0), (1, 30, 4.0), (2, 50, 3.0)],
)


def part_of(stores, lines, *, blocks=None, skipped=()):
    """A part whose candidates are the lines' keys; lines are (query, passage, other, score)."""
    keys = [[line[i] for line in lines] for i in range(3)]
    candidates = stores.tables(
        schema.CANDIDATES, keys, ranges=[(0, 1)], facts=[{"rows": len(lines)}]
    )
    edges = [0, *(blocks or []), len(lines)]
    tables, facts = [], []
    for start, stop in zip(edges, edges[1:], strict=False):
        own = [line for n, line in enumerate(lines[start:stop], start) if n not in skipped]
        tables.append([[line[i] for line in own] for i in range(4)])
        first, last = (own[0][0], own[-1][0]) if own else (-1, -1)
        facts.append({"rows": len(own), "first_query": first, "last_query": last})
    ranges = list(zip(edges, edges[1:], strict=False))
    scores = stores.tables(schema.SCORES, *tables, ranges=ranges, facts=facts, skipped=skipped)
    return Part(candidates, scores)


def lines_of(stored, columns=schema.RUN):
    return [tuple(row.values()) for row in stored.whole_table(columns).to_pylist()]
