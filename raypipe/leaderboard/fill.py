"""Queries with too few rows, filled from an earlier run and from nothing else."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Filled:
    """Rankings as they will be written."""

    rankings: dict[str, list[str]]
    num_queries: int
    """Queries that got rows."""
    num_rows: int
    num_cut: int
    """Rows below the board's depth, left out."""


def fill(
    rankings: Mapping[str, Sequence[str]],
    earlier: Mapping[str, Sequence[str]],
    *,
    queries: Sequence[str],
    depth: int | None,
) -> Filled:
    """Each query's passages up to `depth`; below them those of the earlier run it does not have.

    Queries stand in the order of `queries`; one that neither run has gets no row.
    """
    filled: dict[str, list[str]] = {}
    num_queries = num_rows = num_cut = 0
    for query in queries:
        own = list(rankings.get(query, ()))
        kept = own[:depth]
        num_cut += len(own) - len(kept)
        before = len(kept)
        if depth is not None and before < depth:
            known = set(kept)
            more = [passage for passage in earlier.get(query, ()) if passage not in known]
            kept += more[: depth - before]
        num_queries += len(kept) > before
        num_rows += len(kept) - before
        if kept:
            filled[query] = kept
    return Filled(filled, num_queries, num_rows, num_cut)
