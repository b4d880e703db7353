"""Reorders a run's first candidates by a reranker's scores."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from raypipe.api.inputs import (
    Given,
    Run,
    Scores,
    count_of,
    held_scores,
    model_of,
    number_of,
    refuse_missing,
    run_of,
    settings_of,
    texts_of,
)
from raypipe.api.scoring import score
from raypipe.errors import InputError
from raypipe.ranking.by_id import ascending, first_seen, with_ids, with_rows
from raypipe.ranking.candidates import pairs, singles
from raypipe.ranking.rerank import aggregate_by_key, rerank_by_key
from raypipe.stages.scoring.blending import blend_of
from raypipe.vocabulary import K0, K1, Aggregation, Tail, words

if TYPE_CHECKING:
    from raypipe.api.opened.ray import Ray


def rerank(
    run: Run,
    queries: Given | None = None,
    passages: Given | None = None,
    model: str | Path = "minilm-mono",
    *,
    scores: Scores | None = None,
    k: int | None = None,
    method: Aggregation | None = None,
    tail: Tail = "keep",
    blend: float | None = None,
    preset: str | None = None,
    prompts: Mapping[str, str] | None = None,
    device: str = "auto",
    precision: str = "auto",
    ray: "Ray | None" = None,
) -> pa.Table:
    """The run with each query's first k candidates reordered; the others stay below, in order.

    Columns query_id, passage_id, rank from 1 and score float32: the reranker's for the first k, the
    run's own below; the two are never compared. Ties are ordered by the position in `passages`, as
    in a pipeline; without `passages` by ascending passage id, as strings.

    Either the model scores the candidates now, as in `score`, or `scores` are given, from an
    earlier call or any other source; then no queries are needed.

    Args:
        run: a table, a dictionary query id -> passage id -> score, or a path.
        queries: a list of texts, a dictionary id -> text, or a table with query_id and text.
        passages: likewise; a table has passage_id and text.
        model: `general-mono`, `minilm-mono`, `minilm-duo`, or the folder or hub's name of
            a reranker.
        scores: the table that `score` returned, of either kind of model; a dictionary as above; or
            an array with one number per line of the run, whose lines are ordered by rank.
        k: number of candidates per query to reorder: k0 for a monoBERT model, k1 for a duoBERT
            model. The default is 1000 or 50 if the model scores them now, the whole run if scores
            are given.
        method: for duoBERT's pairs: sum (the default), binary, min, max, symmetric-sum or
            symmetric-log-sum; `sample` needs a recipe, which names how many it draws.
        tail: keep or drop the candidates below the first k.
        blend: the weight of the run's own order where a monoBERT model scores now: candidates are
            then ordered by its log odds plus this times the run's score, min-max over a query's
            first k. None means that of the model's settings, 0 none.
        preset: settings by name, if the model's folder does not state them.
        prompts: text put in front of queries and passages, {"query": ..., "passage": ...}, in the
            place of the model's own; a side that is not named gets none.
        device: auto, cpu or cuda.
        precision: auto, fastest, fp32, tf32, bf16, fp16, int8 or int8+bf16, of the model's
            products; see `docs/commands.md`.
        ray: what `open_ray` opened, whose workers score then; see `score`.

    Raises:
        InputError: bad input, or a candidate of the first k without a score.
        RowsFailed: the model's scores are not finite.
    """
    methods = [word for word in words(Aggregation) if word != "sample"]
    for name, value, known in (("method", method or "sum", methods), ("tail", tail, words(Tail))):
        if value not in known:
            raise InputError(f"{name}: expected one of {', '.join(known)}; found {value!r}")
    table = run_of(run)
    if k is not None:
        k = count_of("k", k)
    if scores is not None and ray is not None:
        raise InputError("ray: scores are given, so nothing is scored; remove it")
    if blend is not None:
        blend = number_of("blend", blend, low=0)
    if scores is not None and blend is not None:
        raise InputError("blend: of a model that scores now, and scores are given; remove it")
    how = None
    if scores is None:
        if queries is None or passages is None:
            raise InputError("rerank: expected scores, or queries and passages to score now")
        conventions = model_of(model, preset, settings=settings_of(prompts)).reranker
        if conventions.kind == "mono":
            _refuse_method(method)
            how = blend_of(conventions, blend)
        elif blend is not None:
            raise InputError("blend: for a monoBERT model; remove it")
        found = score(
            table,
            queries,
            passages,
            model=model,
            k=k,
            preset=preset,
            prompts=prompts,
            device=device,
            precision=precision,
            ray=ray,
        )
        k = k or (K1 if conventions.kind == "duo" else K0)
        scores = found
    k = k or pc.max(table["rank"]).as_py() or 1
    query_ids = first_seen([table]) if queries is None else texts_of(queries, "query").ids
    ids = ascending([table]) if passages is None else texts_of(passages, "passage").ids
    rows = with_rows(table, query_ids, ids, name="run")
    held = held_scores(scores, table, query_ids, ids)
    columns = [rows[name].to_numpy() for name in ("query_row", "passage_row", "rank")]
    if held.of_pairs:
        wanted = pairs(*columns, k1=k)
        ranked = aggregate_by_key(
            rows, wanted, *held[:2], method=method or "sum", k=k, tail=tail, scored_by="rerank"
        )
    else:
        _refuse_method(method)
        refuse_missing(singles(*columns, k0=k), held, query_ids, ids)
        keys, found = held[:2]
        if how is not None:
            found = how.of_run(rows, keys, found, last=k)
        ranked = rerank_by_key(rows, keys, found, k=k, tail=tail, scored_by="rerank")
    return with_ids(ranked, query_ids, ids)


def _refuse_method(method: Aggregation | None) -> None:
    if method is not None:
        raise InputError(f"method: found {method!r}, for pairs of a duoBERT model; remove it")
