"""What a first stage's depth costs and gains: recall, and a reranker over its candidates.

Source: RepBERT (Zhan et al. 2020), Table 2 and Figure 1; Nogueira et al. 2019, Figure 2.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from raypipe.ranking.blend import Blend
from raypipe.ranking.by_key import lines_of
from raypipe.ranking.candidates import positions
from raypipe.ranking.lookup import places_of
from raypipe.ranking.rerank import rerank

RECALL_DEPTHS = (5, 10, 20, 50, 100, 200, 500, 1000, 2000)
"""Depths at which a first stage's recall is told."""
RERANKED_DEPTHS = (5, 10, 50, 100, 500, 1000)
"""Depths of candidates for a reranker, those of RepBERT's Table 2."""


def depths_up_to(most: int, wanted: Sequence[int]) -> list[int]:
    """The wanted depths below `most`, then `most` itself; ascending."""
    return [*sorted(depth for depth in set(wanted) if depth < most), most]


def longest(run: pa.Table) -> int:
    """The number of lines of the query that has most; 0 for an empty run."""
    return int(pc.max(run["rank"]).as_py() or 0)


def cut(run: pa.Table, depth: int) -> pa.Table:
    """The lines with a rank up to `depth`, in their order."""
    return run.filter(pc.less_equal(run["rank"], depth))


def down_to(
    run: pa.Table,
    query_rows: NDArray[np.int64],
    passage_rows: NDArray[np.int64],
    *,
    most: int = 1,
) -> pa.Table:
    """The lines down to the last one of each query that is among the given pairs.

    A query's first `most` lines are always kept. The pairs are sorted, see `places_of`.
    """
    known = places_of(run, query_rows, passage_rows) >= 0
    of_line, rank = run["query_row"].to_numpy(), run["rank"].to_numpy()
    last = np.full(int(of_line.max(initial=0)) + 1, most, rank.dtype)
    np.maximum.at(last, of_line[known], rank[known])
    return run.filter(pa.array(rank <= last[of_line]))


def reranked_at(
    first: pa.Table,
    scored: pa.Table,
    *,
    scored_by: str,
    depth: int,
    tail: str,
    blend: tuple[Blend, int] | None = None,
) -> pa.Table:
    """What a reranker's run would be with `depth` candidates, from its scores of more candidates.

    It equals the run of a stage with `k0: depth`, since a candidate's score does not depend on the
    others; that of a blend does, and is moved to the range of its first `depth`.

    Args:
        first: schema.RUN, the run whose candidates were scored, each query's lines together.
        scored: schema.RUN, what the reranker made of it, with at least `depth` candidates scored.
        scored_by: the name of the reranker's stage; lines of other stages are the tail.
        depth: number of candidates per query.
        tail: `keep` or `drop`, as for the stage.
        blend: that of the stage, and its k0; None for a model's scores alone.

    Returns:
        schema.RUN, by query row, best first. Candidates without a score, in quarantine, are left
        out as the stage leaves them out.
    """
    own = scored.filter(pc.equal(scored["scored_by"], scored_by))
    places = positions(lines_of(first), lines_of(own))
    found = places >= 0
    scores = np.zeros(len(first), np.float32)
    scores[found] = own["score"].to_numpy()[places[found]]
    if blend is not None:
        how, k0 = blend
        scores = how.at_another_depth(first, lines_of(first), scores, last=k0, to=depth)
    return rerank(first, scores, k=depth, tail=tail, scored_by=scored_by, failed=~found)
