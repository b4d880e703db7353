"""The stages that make runs and pairs by selecting from tables of scores."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from raypipe import schema
from raypipe.errors import InputError
from raypipe.models.folder.settings import PairConventions
from raypipe.stages.scoring.candidates import Request, Scored, keys_of
from raypipe.stages.tables import Sides, TableStage, num_lines
from raypipe.storage.records import Json, Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored, spec_over

if TYPE_CHECKING:
    from raypipe.ranking.blend import Blend


def rerank_stage(
    name: str,
    run: Stored,
    base: StageSpec,
    request: Request,
    tail: str,
    sides: Sides,
    scored: Scored,
    blend: Blend | None = None,
) -> TableStage:
    """A run whose first k0 candidates are in a monoBERT model's order.

    Its spec names what the scores depend on, the run, k0, tail and blend.

    Args:
        name: of the reranked run.
        run: the candidates.
        base: see score_base.
        request: with k0.
        tail: whether candidates after k0 are kept.
        sides: the queries and the passages.
        scored: the scores.
        blend: None if candidates are ordered by the model's scores alone.
    """
    params = {**request.to_json(), "scores": base.without_derived(), "tail": tail}
    if blend is not None:
        params["blend"] = asdict(blend)

    def block(shard: Shard) -> pa.Table:
        from raypipe.ranking.rerank import rerank_by_key
        from raypipe.stages.run_tables import read_queries_of_run

        lines = read_queries_of_run(run, shard.start, shard.stop)
        keys = request.keys(lines)
        queries = (shard.start, shard.stop)
        scores, failed = scored.find(keys, queries, what=f"{name}, {shard}")
        if blend is not None:
            scores = blend.of_run(lines, keys, scores, last=request.k)
        return rerank_by_key(
            lines, keys, scores, k=request.k, tail=tail, scored_by=name, failed=failed
        )

    stores = {"run": run} | sides.stores()
    spec = partial(spec_over, "rerank", 1, params, stores, produces="run")
    return TableStage(name, spec, stores, block, partial(_num_lines, run, request, tail))


def pairs_stage(
    name: str,
    run: Stored,
    base: StageSpec,
    request: Request,
    sides: Sides,
    scored: Scored,
) -> TableStage:
    """Every p(i, j) of a run's first k1 candidates, or of a draw of them: schema.SCORES, sorted.

    Pairs in quarantine are left out. Its spec names what the probabilities depend on, the run and
    the request. The arguments are those of `rerank_stage`, `request` with k1.
    """
    params = {**request.to_json(), "scores": base.without_derived()}

    def block(shard: Shard) -> tuple[pa.Table, dict[str, Json]]:
        from raypipe.stages.run_tables import read_queries_of_run

        keys = request.keys(read_queries_of_run(run, shard.start, shard.stop))
        queries = (shard.start, shard.stop)
        scores, failed = scored.find(keys, queries, what=f"{name}, {shard}")
        first, second, third = (column[~failed] for column in keys)
        columns = [first.astype(np.int32), second, third, scores[~failed]]
        return pa.table(columns, schema=schema.SCORES), {"failed": int(failed.sum())}

    stores = {"run": run} | sides.stores()
    spec = partial(spec_over, "pairs", 1, params, stores, produces="pairs")

    return TableStage(
        name,
        spec,
        stores,
        block,
        partial(request.num_candidates, run),
        schema.SCORES,
        expected_facts=lambda: {"failed": 0},
    )


def aggregate_stage(
    name: str,
    run: Stored,
    pairs: Stored,
    request: Request,
    method: str,
    tail: str,
    sides: Sides,
) -> TableStage:
    """A run whose first k1 candidates are ordered by their aggregated probabilities.

    It raises InputError if pairs that the method needs are missing, with their number.

    Args:
        name: of the run.
        run: that from which the pairs were made; ties keep its order.
        pairs: see pairs_stage.
        request: that of the pairs.
        method: sum, binary, min, max or sample.
        tail: whether candidates after k1 are kept.
        sides: the queries and the passages.
    """
    params = {**request.to_json(), "method": method, "tail": tail}
    stores = {"run": run, "pairs": pairs} | sides.stores()

    def block(shard: Shard) -> pa.Table:
        from raypipe.ranking.rerank import aggregate_by_key
        from raypipe.stages.run_tables import read_queries_of_run

        lines = read_queries_of_run(run, shard.start, shard.stop)
        scored = read_queries_of_run(pairs, shard.start, shard.stop, schema.SCORES)
        return aggregate_by_key(
            lines,
            request.keys(lines),
            keys_of(scored),
            scored["score"].to_numpy(),
            method=method,
            k=request.k,
            tail=tail,
            scored_by=name,
            some_failed=any(record.facts["failed"] for record in pairs.manifest.records),
        )

    spec = partial(spec_over, "aggregate", 2, params, stores, produces="run")
    return TableStage(name, spec, stores, block, partial(_num_lines, run, request, tail))


def _num_lines(run: Stored, request: Request, tail: str) -> int:
    """At most, of a reordered run."""
    lines = num_lines(run)
    return lines if tail == "keep" else min(lines, request.k * run.num_rows)


MOST = 1e30
"""The largest weight: sums with it are finite in fp32, whatever a model's output is."""


def blend_of(
    conventions: PairConventions, weight: float | None, *, over_bm25: bool = False
) -> Blend | None:
    """The blend of this weight, or of the model's own; None for the model's scores alone.

    Args:
        conventions: the model's, with the scale of the scores.
        weight: None means that of the model.
        over_bm25: whether the run is known to be BM25's alone.

    Raises:
        InputError: the log odds of the blend cannot be had from such scores, or its sums may leave
            the range of fp32.
    """
    if weight is None and over_bm25:
        weight = conventions.blend_over_bm25
    weight = conventions.blend if weight is None else weight
    if not weight:
        return None
    if weight > MOST:
        raise InputError(f"blend: expected at most {MOST:g}, found {weight:g}")
    two_units = conventions.relevant_label is not None
    if conventions.score == "probability" or (conventions.score == "raw" and two_units):
        raise InputError(
            f"blend {weight:g} needs the model's log odds, which scores of the scale "
            f"{conventions.score} do not tell; expected score: log-probability, or blend: 0"
        )
    from raypipe.ranking.blend import Blend

    return Blend(weight, conventions.score)


def blend_and_depth(stored: Stored) -> tuple[Blend, int] | None:
    """The blend of a stored run of a monoBERT model, with its k0; None if it has no blend."""
    from raypipe.ranking.blend import Blend

    params: Any = stored.spec.params
    return (Blend(**params["blend"]), params["k0"]) if "blend" in params else None
