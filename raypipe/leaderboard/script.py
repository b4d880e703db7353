"""The measure of MS MARCO's evaluation scripts, from their documented behaviour."""

from collections.abc import Mapping, Sequence

import pyarrow as pa


def reciprocal_rank(
    rankings: Mapping[str, Sequence[str]], qrels: pa.Table, *, cutoff: int
) -> tuple[float, int]:
    """(mean, number of queries) as computed by the board's script.

    The first passage at ranks 1 to `cutoff` that the qrels have for the query counts 1/rank,
    whatever its grade. The sum, in the run's order of queries, is divided by the number of queries
    in the qrels: queries missing from the run count 0, and other queries of the run are ignored.
    """
    relevant: dict[str, set[str]] = {}
    for query, passage in zip(
        qrels["query_id"].to_pylist(), qrels["passage_id"].to_pylist(), strict=True
    ):
        relevant.setdefault(query, set()).add(passage)
    total = 0.0
    for query, passages in rankings.items():
        wanted = relevant.get(query, ())
        for rank, passage in enumerate(passages[:cutoff], 1):
            if passage in wanted:
                total += 1 / rank
                break
    return total / len(relevant), len(relevant)
