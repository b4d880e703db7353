"""Finds a query by its id in the query sets of a finished workspace."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import NamedTuple

from raypipe.driver.analysis.finished import Finished
from raypipe.errors import InputError

NUM_NEAR = 3


class Found(NamedTuple):
    """A query of a set."""

    query_set: str
    row: int
    query_id: str
    text: str


def find_query(finished: Finished, query_id: str, query_set: str | None) -> list[Found]:
    """The query in each query set that has its id, or in the one that is named.

    Raises:
        InputError: no such query set, or none with such a query; it names the nearest ids.
    """
    return _found(finished, query_id, finished.chosen(query_set))


def sets_of(
    finished: Finished, query_ids: Sequence[str], query_sets: Sequence[str]
) -> dict[str, list[str]]:
    """Query set -> those of the queries that it has, in their order.

    Raises:
        InputError: a query that none of the sets has; it names the nearest ids.
    """
    found: dict[str, list[str]] = {}
    for query_id in dict.fromkeys(query_ids):
        for query in _found(finished, query_id, query_sets):
            found.setdefault(query.query_set, []).append(query_id)
    return found


def _found(finished: Finished, query_id: str, query_sets: Sequence[str]) -> list[Found]:
    found, told, known = [], [], list[str]()
    for name in query_sets:
        table = finished.queries(name)
        ids = table["query_id"].to_pylist()
        if query_id in ids:
            row = ids.index(query_id)
            found.append(Found(name, row, query_id, table["text"][row].as_py()))
        told.append(f"{name} ({len(ids):,} queries)")
        known += ids
    if not found:
        near = get_close_matches(query_id, known, n=NUM_NEAR)
        more = f"did you mean {_listed(near)}?" if near else f"expected such as {_listed(known)}"
        raise InputError(f"--query {query_id}: no such query in {' or '.join(told)}; {more}")
    return found


def _listed(ids: list[str]) -> str:
    return " or ".join(list(dict.fromkeys(ids))[:NUM_NEAR]) or "none: the query set is empty"
