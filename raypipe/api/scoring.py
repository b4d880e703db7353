"""Scores candidates with a reranker."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe.api.inputs import (
    Given,
    Run,
    count_of,
    is_table,
    model_of,
    placed,
    run_of,
    settings_of,
    texts_of,
)
from raypipe.errors import InputError
from raypipe.ranking.by_id import with_rows
from raypipe.ranking.candidates import pairs, singles
from raypipe.vocabulary import K0, K1

if TYPE_CHECKING:
    from raypipe.api.opened.ray import Ray
    from raypipe.models.folder.model_folder import ModelFolder

Tuples = Iterable[Sequence[str]]


@overload
def score(
    candidates: Tuples,
    *,
    model: str | Path = ...,
    preset: str | None = ...,
    prompts: Mapping[str, str] | None = ...,
    device: str = ...,
    precision: str = ...,
) -> NDArray[np.float32]: ...
@overload
def score(
    candidates: Run,
    queries: Given,
    passages: Given,
    model: str | Path = ...,
    *,
    k: int | None = ...,
    preset: str | None = ...,
    prompts: Mapping[str, str] | None = ...,
    device: str = ...,
    precision: str = ...,
    ray: "Ray | None" = ...,
) -> pa.Table: ...
def score(
    candidates: Tuples | Run,
    queries: Given | None = None,
    passages: Given | None = None,
    model: str | Path = "minilm-mono",
    *,
    k: int | None = None,
    preset: str | None = None,
    prompts: Mapping[str, str] | None = None,
    device: str = "auto",
    precision: str = "auto",
    ray: "Ray | None" = None,
) -> NDArray[np.float32] | pa.Table:
    """Scores of candidates, the same as a pipeline's `score` stage stores.

    Tuples of texts give an array, float32, with one score per tuple: (query, passage) for a
    monoBERT model, (query, passage i, passage j) for a duoBERT model, whose score is p(i, j), the
    probability that passage i is more relevant than passage j.

    A run gives a table, by query and position of the passages: for a monoBERT model query_id,
    passage_id and score; for a duoBERT model query_id, passage_id, other_id and probability, for
    every ordered pair of a query's first k. `rerank` accepts both.

    Args:
        candidates: tuples of texts, or a run (a table, a dictionary, a path).
        queries: for a run, its queries: a list, a dictionary id -> text or a table.
        passages: for a run, its passages, and any others.
        model: `general-mono`, `minilm-mono`, `minilm-duo`, or the folder or hub's name of
            a reranker.
        k: for a run, candidates per query: k0 for monoBERT, 1000 by default; k1 for duoBERT, 50.
        preset: settings by name, if the folder does not state them.
        prompts: text put in front of queries and passages, {"query": ..., "passage": ...}, in the
            place of the model's own; a side that is not named gets none.
        device: auto, cpu or cuda.
        precision: auto, fastest, fp32, tf32, bf16, fp16, int8 or int8+bf16, of the model's
            products; see `docs/commands.md`.
        ray: for a run, what `open_ray` opened: its workers score, and another error than these two
            is that of `raypipe.run`.

    Raises:
        InputError: bad texts, ids of the run that are not among those given, no such model, or an
            encoder.
        RowsFailed: scores that are not finite; rows are candidates in the order of the result.
    """
    if ray is not None:
        from raypipe.api.opened.ray import shared_of

        shared_of(ray)  # refused before the model is read
    opened = model_of(model, preset, settings=settings_of(prompts))
    kind = opened.reranker.kind
    if queries is None and passages is None:
        if ray is not None:
            raise InputError("ray: for a run; tuples of texts are scored in this process")
        return _tuples(candidates, *placed(opened, device, precision))
    if queries is None or passages is None:
        raise InputError("score: a run needs queries and passages; tuples of texts need neither")
    asked, answers = texts_of(queries, "query"), texts_of(passages, "passage")
    k = (K1 if kind == "duo" else K0) if k is None else count_of("k", k)
    if kind == "duo" and k == 1:
        raise InputError("k: one candidate makes no pair; expected 2 or more for a duoBERT model")
    run = with_rows(run_of(candidates), asked.ids, answers.ids, name="run")
    columns = [run[name].to_numpy() for name in ("query_row", "passage_row", "rank")]
    if ray is None or not run.num_rows:
        from raypipe.stages.in_memory import score_texts

        keys = pairs(*columns, k1=k) if kind == "duo" else singles(*columns, k0=k)
        opened, where = placed(opened, device, precision)
        found = score_texts(opened, asked.texts, answers.texts, keys, device=where)
    else:
        from raypipe.api.scoring_on_ray import score_on_ray

        keys, found = score_on_ray(
            ray,
            run,
            asked.texts,
            answers.texts,
            model=str(model),
            preset=preset,
            settings=settings_of(prompts),
            kind=kind,
            k=k,
            resources={"device": device, "precision": precision},
        )
    query_rows, first, second = keys
    table = {"query_id": asked.ids.take(query_rows), "passage_id": answers.ids.take(first)}
    if kind == "mono":
        return pa.table({**table, "score": found})
    return pa.table({**table, "other_id": answers.ids.take(second), "probability": found})


def _tuples(given: Any, model: "ModelFolder", device: str) -> NDArray[np.float32]:
    wanted = "(query, passage i, passage j)" if model.reranker.kind == "duo" else "(query, passage)"
    width = 1 + model.reranker.num_passages
    if not isinstance(given, Iterable) or isinstance(given, str | Mapping) or is_table(given):
        raise InputError(
            f"score: found {type(given).__name__}; expected tuples of texts, {wanted}, or a run "
            "with its queries and passages"
        )
    tuples = list(given)
    for place, each in enumerate(tuples):
        if not isinstance(each, Sequence) or isinstance(each, str) or len(each) != width:
            raise InputError(
                f"score: candidate {place}: expected {wanted} for the "
                f"{model.reranker.kind}BERT model {model.path}; found {each!r:.80}"
            )
    columns = list(zip(*tuples, strict=True)) or [()] * width
    asked, query_rows = _distinct(columns[:1], "query")
    answers, rows = _distinct(columns[1:], "passage")
    from raypipe.stages.in_memory import score_texts

    return score_texts(model, asked, answers, (query_rows[0], rows[0], rows[-1]), device=device)


def _distinct(
    columns: Sequence[Iterable[str]], kind: str
) -> tuple[list[str], list[NDArray[np.int64]]]:
    """The distinct texts of the columns, and each column's positions among them."""
    checked = [texts_of(column, kind).texts for column in columns]
    places = {text: place for place, text in enumerate(dict.fromkeys(chain(*checked)))}
    return list(places), [np.array([places[t] for t in texts], np.int64) for texts in checked]
