"""The measure of MS MARCO's evaluation scripts, from their documented behaviour."""

from collections.abc import Mapping, Sequence

import pyarrow as pa


def reciprocal_rank(
    rankings: Mapping[str, Sequence[str]], qrels: pa.Table, *, cutoff: int
) -> tuple[float, int]:
    """(mean, number of queries) as the board's script has them.

    The first passage of ranks 1 to `cutoff` that the qrels name for the query counts 1/rank; their
    grade is not looked at. The sum, taken in the run's order of queries, is divided by the number
    of queries in the qrels: those that the run lacks count 0, those beside them are passed over.
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
