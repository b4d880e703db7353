"""Passages that a reranker moved furthest.

Source: Nogueira et al. 2019 (Multi-stage document ranking with BERT), Table 3.
"""

import re
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from raypipe.ranking.by_key import lines_of
from raypipe.ranking.candidates import positions

_WORD = re.compile(r"\w+")


class Move(NamedTuple):
    """One candidate, before and after."""

    query_row: int
    passage_row: int
    before: int
    after: int


def moves(before: pa.Table, after: pa.Table, *, scored_by: str, num: int) -> list[Move]:
    """The `num` candidates that rose furthest and the `num` that fell furthest.

    Args:
        before: schema.RUN.
        after: schema.RUN, the reranked run; only lines that `scored_by` scored count.
        scored_by: the name of the reranker's stage.
        num: of each direction.

    Returns:
        The risen, the furthest first, then the fallen likewise; ties by query, then new rank.
    """
    scored = after.filter(pc.equal(after["scored_by"], scored_by))
    places = positions(lines_of(scored), lines_of(before))
    known = places >= 0
    old = before["rank"].to_numpy()[places[known]]
    new = scored["rank"].to_numpy()[known]
    queries = scored["query_row"].to_numpy()[known]
    rows = scored["passage_row"].to_numpy()[known]
    risen = old.astype(np.int64) - new
    found = []
    for sign in (1, -1):
        order = np.lexsort((new, queries, -sign * risen))
        found += [at for at in order[:num].tolist() if sign * risen[at] > 0]
    return [Move(int(queries[a]), int(rows[a]), int(old[a]), int(new[a])) for a in found]


def shared_words(query: str, passage: str) -> list[str]:
    """The query's words that the passage has too, in lower case and each once, in their order."""
    there = set(_WORD.findall(passage.lower()))
    return [word for word in dict.fromkeys(_WORD.findall(query.lower())) if word in there]
