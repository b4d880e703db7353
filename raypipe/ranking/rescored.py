"""Orders the scored lines of a run by other scores; the rest stays below."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe import schema
from raypipe.ranking.candidates import Keys, positions
from raypipe.ranking.order import check_finite, ranks
from raypipe.ranking.rerank import lines_of


def rescored(
    run: pa.Table, scored: NDArray[np.bool_], keys: Keys, scores: NDArray[np.float32]
) -> pa.Table:
    """The run (schema.RUN) with its scored lines in the order of other scores, ties by row.

    Args:
        run: schema.RUN, each query's lines together, the scored ones first.
        scored: bool, one per line.
        keys: those of the other scores, as of a monoBERT model.
        scores: float32, one per key. A scored line without one keeps the score that it has.

    Raises:
        InputError: a score is not finite.
    """
    places = positions(lines_of(run), keys)
    own = run["score"].to_numpy().astype(np.float32)
    new = own.copy()
    found = scored & (places >= 0)
    new[found] = scores[places[found]]
    check_finite(new[scored])
    query_rows, rows = run["query_row"].to_numpy(), run["passage_row"].to_numpy()
    below = np.where(scored, 0, run["rank"].to_numpy())
    within = np.where(scored, new, 0).astype(np.float32)
    order = np.lexsort((rows, -within, below, query_rows))
    columns = [
        query_rows[order],
        rows[order],
        ranks(query_rows[order]),
        new[order],
        run["scored_by"].take(pa.array(order)),
    ]
    return pa.table(columns, schema=schema.RUN)
