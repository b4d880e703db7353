"""The blend of a monoBERT model's output with the order that it is given: s = a z + f.

f is the log odds that a candidate is relevant (of a head of one unit: its raw output), and z the
first stage's score, min-max over the query's candidates.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from raypipe.errors import InputError
from raypipe.ranking.candidates import Keys, positions
from raypipe.ranking.documents import log_odds
from raypipe.ranking.fuse import min_max
from raypipe.ranking.order import Float32, begins
from raypipe.ranking.rerank import lines_of, rerank

Float64 = NDArray[np.float64]


@dataclass(frozen=True)
class Blend:
    """How scores of candidates become those of a ranking."""

    weight: float
    """a."""
    scale: str
    """Scale of the candidates' scores: log-probability, of which f is made, or raw, f itself."""

    def of_run(self, run: pa.Table, keys: Keys, scores: Float32, *, last: int) -> Float32:
        """s of each key, float32 [N]; the sum is taken in float64. NaN stays NaN.

        Args:
            run: schema.RUN, each query's lines together, with the first stage's scores.
            keys: of the candidates, each one a line of the run.
            scores: those of the model, one per key.
            last: the last rank over which z is taken.

        Raises:
            InputError: several stages scored a query's first candidates.
        """
        z = _of_keys(run, keys, last)
        f = log_odds(scores) if self.scale == "log-probability" else scores.astype(np.float64)
        s: Float32 = (self.weight * z + f).astype(np.float32)
        return s

    def at_another_depth(
        self, run: pa.Table, keys: Keys, scores: Float32, *, last: int, to: int
    ) -> Float32:
        """s of each key with z over ranks 1 to `to`, from `scores`, those over ranks 1 to `last`.

        It is that of `of_run` but for the rounding of two sums.
        """
        moved = _of_keys(run, keys, to) - _of_keys(run, keys, last)
        s: Float32 = (scores + self.weight * moved).astype(np.float32)
        return s


def first_stage(
    query_rows: NDArray[np.integer], ranks: NDArray[np.integer], scores: Float32, *, last: int
) -> Float64:
    """z of each line of a run, float64 [N]: 0 to 1 over its query's ranks 1 to `last`.

    As in the fusion by weights, z is (score - lowest) / (highest - lowest), or 1 for all if their
    scores are equal. Lines below `last` have 0.

    Args:
        query_rows: each query's lines together, [N].
        ranks: from 1, [N].
        scores: those of the first stage, [N].
        last: the last rank of the list.
    """
    near = np.flatnonzero(ranks <= last)
    values = np.zeros(len(ranks))
    if len(near):
        for lines in np.split(near, np.flatnonzero(begins(query_rows[near]))[1:]):
            values[lines] = min_max(scores[lines])
    return values


def _of_keys(run: pa.Table, keys: Keys, last: int) -> Float64:
    _check_one_scale(run, last)
    columns = (run[name].to_numpy() for name in ("query_row", "rank", "score"))
    return first_stage(*columns, last=last)[positions(keys, lines_of(run))]


def _check_one_scale(run: pa.Table, last: int) -> None:
    near = np.flatnonzero(run["rank"].to_numpy() <= last)
    queries = run["query_row"].to_numpy()[near]
    stages = run["scored_by"].to_numpy(zero_copy_only=False)[near]
    mixed = begins(queries, stages) & ~begins(queries) if len(near) else np.empty(0, bool)
    if mixed.any():
        raise InputError(
            f"blend: {len(np.unique(queries[mixed]))} queries (first: query_row "
            f"{queries[mixed][0]}) have scores of several stages "
            f"({', '.join(sorted(set(stages.tolist())))}) in their first {last} candidates, which "
            "do not compare; score fewer candidates, cut that run with `tail: drop`, or write "
            "blend: 0"
        )


def reranked_at(
    first: pa.Table,
    scored: pa.Table,
    *,
    scored_by: str,
    depth: int,
    tail: str,
    blend: tuple[Blend, int] | None = None,
) -> pa.Table:
    """The run of a reranker with `depth` candidates, from its scores of more candidates.

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
    has_score = places >= 0
    scores = np.zeros(len(first), np.float32)
    scores[has_score] = own["score"].to_numpy()[places[has_score]]
    if blend is not None:
        how, k0 = blend
        scores = how.at_another_depth(first, lines_of(first), scores, last=k0, to=depth)
    return rerank(first, scores, k=depth, tail=tail, scored_by=scored_by, failed=~has_score)
