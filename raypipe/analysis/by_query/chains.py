"""Passages whose rank changes from a first stage to the rerankers over it."""

import math
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from raypipe.analysis.by_query.movers import moves


def ranks_in(runs: Mapping[str, pa.Table], query_row: int) -> dict[str, dict[int, int]]:
    """System -> passage row -> rank, for one query of runs (schema.RUN)."""
    found = {}
    for name, run in runs.items():
        own = run.filter(pc.equal(run["query_row"], query_row))
        rows, ranks = own["passage_row"].to_pylist(), own["rank"].to_pylist()
        found[name] = dict(zip(rows, ranks, strict=True))
    return found


def moved_in(
    runs: Mapping[str, pa.Table], before: Mapping[str, str], query_row: int, *, num: int
) -> set[int]:
    """The passages of a query that its rerankers moved furthest, `num` up and down by each.

    Args:
        runs: system -> schema.RUN, the first stage and the rerankers over it.
        before: reranker -> the system that it reordered.
        query_row: the query.
        num: of each direction and reranker.
    """
    own = {n: run.filter(pc.equal(run["query_row"], query_row)) for n, run in runs.items()}
    return {
        move.passage_row
        for name, below in before.items()
        for move in moves(own[below], own[name], scored_by=name, num=num)
    }


def with_other_ranks(ranks: Mapping[str, Mapping[int, int]]) -> list[int]:
    """The passages, by row, that do not have one and the same rank in every system."""
    rows = sorted({row for own in ranks.values() for row in own})
    return [row for row in rows if len({own.get(row) for own in ranks.values()}) > 1]


def as_in_last(rows: Iterable[int], ranks: Mapping[str, Mapping[int, int]]) -> list[int]:
    """The passages, each once, in the order of the last system, then of the one before, and so on.

    Those that a system does not have come after those that it has.
    """
    last_first = [*ranks.values()][::-1]
    return sorted(set(rows), key=lambda row: (*(o.get(row, math.inf) for o in last_first), row))


def most_changed(change: Mapping[int, float], num: int) -> Sequence[int]:
    """The keys of the largest changes in either direction, none of 0; ties by key."""
    changed = [key for key in change if change[key]]
    return sorted(changed, key=lambda key: (-abs(change[key]), key))[:num]
