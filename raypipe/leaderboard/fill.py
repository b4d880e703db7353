"""Fills queries with too few rows, only from an earlier run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Filled:
    """The rankings to be written."""

    rankings: dict[str, list[str]]
    num_queries: int
    """Number of queries that got rows."""
    num_rows: int
    num_cut: int
    """Number of rows below the board's depth, which are left out."""


def fill(
    rankings: Mapping[str, Sequence[str]],
    earlier: Mapping[str, Sequence[str]],
    *,
    queries: Sequence[str],
    depth: int | None,
) -> Filled:
    """Each query's passages up to `depth`, followed by missing ones from the earlier run.

    Queries are in the order of `queries`; one that neither run has gets no rows.
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
