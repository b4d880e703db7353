"""How alike two rankings of one query are."""

from collections.abc import Sequence

import pyarrow as pa

Ranking = Sequence[str]


def rankings_of(run: pa.Table) -> dict[str, list[str]]:
    """Query id -> passage ids, best first, of a run (schema.RUN_FILE) in its order."""
    rankings: dict[str, list[str]] = {}
    columns = (run[name].to_pylist() for name in ("query_id", "passage_id"))
    for query, passage in zip(*columns, strict=True):
        rankings.setdefault(query, []).append(passage)
    return rankings


def overlap(one: Ranking, other: Ranking, *, cutoff: int) -> float:
    """The share of passages that the first `cutoff` of both rankings have in common.

    The number in common is divided by the longer ranking's length up to the cutoff; 1 for two empty
    rankings.
    """
    first, second = set(one[:cutoff]), set(other[:cutoff])
    size = max(len(first), len(second))
    return len(first & second) / size if size else 1.0


def rank_biased_overlap(one: Ranking, other: Ranking, *, p: float) -> float:
    """Rank-biased overlap, extrapolated from what is seen, between 0 and 1.

    Source: Webber, Moffat & Zobel 2010, Eq. 32, which also covers rankings of different lengths.
    1 for two empty rankings, 0 for one empty one.
    """
    short, long = sorted((one, other), key=len)
    s, length = len(short), len(long)
    if not s:
        return float(not length)
    first: set[str] = set()
    second: set[str] = set()
    common, total, at_s = 0, 0.0, 0
    for depth in range(1, length + 1):
        passage = long[depth - 1]
        common += passage in first
        second.add(passage)
        if depth <= s:
            common += short[depth - 1] in second
            first.add(short[depth - 1])
            at_s = common
        total += common / depth * p**depth
        if depth > s:
            total += at_s * (depth - s) / (s * depth) * p**depth
    tail = (common - at_s) / length + at_s / s
    return (1 - p) / p * total + tail * p**length
