"""Encodes, searches, scores and reranks texts with a model, in this process."""

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeGuard, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from raypipe import schema
from raypipe.api.inputs import (
    CandidateLists,
    Given,
    Scores,
    Texts,
    candidates_of,
    count_of,
    held_scores,
    ids_of,
    model_of,
    number_of,
    placed,
    refuse_missing,
    settings_of,
    texts_of,
)
from raypipe.errors import InputError
from raypipe.ranking.by_id import ascending, first_seen, with_ids, with_rows
from raypipe.ranking.candidates import pairs, singles
from raypipe.ranking.rerank import aggregate_by_key, rerank_by_key
from raypipe.stages.scoring.rerank import blend_of
from raypipe.vocabulary import BM25_B, BM25_K1, DEPTH, K0, K1, Aggregation, Tail, words

if TYPE_CHECKING:
    from raypipe.models.folder.model_folder import ModelFolder

SIDES = ("passage", "query")
Vectors = NDArray[np.float16]
Tuples = Sequence[Sequence[str]]


def encode(
    texts: Given,
    model: str | Path = "minilm",
    *,
    side: str = "passage",
    preset: str | None = None,
    prompts: Mapping[str, str] | None = None,
    device: str = "auto",
    precision: str = "auto",
) -> NDArray[np.float16]:
    """One embedding per text, float16 [texts, dimension], in the order of the texts.

    The bytes are those that a pipeline's `encode` stage stores: rounded to the nearest
    float16, and independent of the other texts. The model stays open for the next call.

    Args:
        texts: a list, a dictionary id -> text, or a table with a text column and ids.
        model: `minilm`, or the folder or hub's name of an encoder.
        side: passage or query: some models treat the two differently.
        preset: settings by name, if the folder does not state them.
        prompts: text put in front of queries and passages, {"query": ..., "passage": ...}, in the
            place of the model's own; a side that is not named gets none.
        device: auto, cpu or cuda.
        precision: auto, fastest, fp32, tf32, bf16, fp16, int8 or int8+bf16, of the model's
            products; see `docs/recipes.md`.

    Raises:
        InputError: no texts, no such model, or a model that is not an encoder.
        RowsFailed: embeddings that are not finite, with their rows.
    """
    if side not in SIDES:
        raise InputError(f"side: expected one of {', '.join(SIDES)}; found {side!r}")
    named_texts = texts_of(texts, side)
    opened = model_of(model, preset, settings=settings_of(prompts))
    assert opened.encoder.kind == "encoder"  # otherwise `encoder` raises
    from raypipe.stages.in_memory import encode_texts

    opened, where = placed(opened, device, precision)
    return encode_texts(opened, named_texts.texts, side=side, device=where)


def search(
    queries: Given | Vectors,
    passages: Given | Vectors,
    model: str | Path = "minilm",
    *,
    depth: int = DEPTH,
    query_ids: Sequence[str] | None = None,
    passage_ids: Sequence[str] | None = None,
    k1: float = BM25_K1,
    b: float = BM25_B,
    preset: str | None = None,
    prompts: Mapping[str, str] | None = None,
    device: str = "auto",
    precision: str = "auto",
) -> pa.Table:
    """The best `depth` passages of each query: query_id, passage_id, rank from 1, score float32.

    Queries are in their order, passages best first, ties by their position in `passages`. Dense
    scores are exact inner products of the float16 embeddings, so the run is that of a pipeline.
    With BM25, a query ranks only passages that contain one of its words.

    Args:
        queries: a list of texts, a dictionary id -> text, a table with query_id and text, or
            embeddings, float16 [queries, dimension].
        passages: likewise; a table has passage_id and text.
        model: an encoder, for the sides that are texts; or `bm25`, by Lucene, only for texts.
        depth: number of passages per query.
        query_ids: ids for embeddings; positions by default.
        passage_ids: likewise.
        k1: BM25's parameter, like `b`.
        preset: settings by name, if the model's folder does not state them.
        prompts: text put in front of queries and passages, {"query": ..., "passage": ...}, in the
            place of the model's own; a side that is not named gets none.
        device: the model's device: auto, cpu or cuda.
        precision: auto, fastest, fp32, tf32, bf16, fp16, int8 or int8+bf16, of the model's
            products; see `docs/recipes.md`.

    Raises:
        InputError: bad texts or ids, embeddings that do not fit or are not finite, no such model.
        RowsFailed: embeddings that are not finite, with their rows.
    """
    depth = count_of("depth", depth)
    if model == "bm25":
        query_texts = _texts_alone(queries, "query")
        passage_texts = _texts_alone(passages, "passage")
        k1, b = number_of("k1", k1, low=0), number_of("b", b, low=0, high=1)
        return _bm25(
            query_texts, passage_texts, depth=min(depth, len(passage_texts.ids)), k1=k1, b=b
        )
    options = {"model": model, "preset": preset, "prompts": prompts}
    options |= {"device": device, "precision": precision}
    query_names, query_vectors = _side(queries, "query", query_ids, options)
    passage_names, passage_vectors = _side(passages, "passage", passage_ids, options)
    run = _exact(query_vectors, passage_vectors, depth=depth)
    return with_ids(run, query_names, passage_names)


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
    candidates: CandidateLists,
    queries: Given,
    passages: Given,
    model: str | Path = ...,
    *,
    k: int | None = ...,
    preset: str | None = ...,
    prompts: Mapping[str, str] | None = ...,
    device: str = ...,
    precision: str = ...,
) -> pa.Table: ...
def score(
    candidates: Tuples | CandidateLists,
    queries: Given | None = None,
    passages: Given | None = None,
    model: str | Path = "minilm-mono",
    *,
    k: int | None = None,
    preset: str | None = None,
    prompts: Mapping[str, str] | None = None,
    device: str = "auto",
    precision: str = "auto",
) -> NDArray[np.float32] | pa.Table:
    """Scores of candidates, the same as a pipeline's `score` stage stores.

    Tuples of texts give an array, float32, with one score per tuple: (query, passage) for a
    monoBERT model, (query, passage i, passage j) for a duoBERT model, whose score is p(i, j), the
    probability that passage i is more relevant than passage j.

    A run gives a table, by query and position of the passages: for a monoBERT model query_id,
    passage_id and score; for a duoBERT model query_id, passage_id, other_id and probability, for
    every ordered pair of a query's first k. `rerank` accepts both.

    Args:
        candidates: a list of tuples of texts, or a run (a table, a dictionary, a path). Without
            ranks and scores a table with query_id and passage_id is enough, or a dictionary query
            id -> list of passage ids; then k may not leave any of them out.
        queries: for a run, its queries: a list, a dictionary id -> text or a table.
        passages: for a run, its passages, and any others.
        model: `general-mono`, for Python's documentation `minilm-mono` or `minilm-duo`, or the
            folder or hub's name of a reranker.
        k: for a run, candidates per query: k0 for monoBERT, 1000 by default; k1 for duoBERT, 50.
        preset: settings by name, if the folder does not state them.
        prompts: text put in front of queries and passages, {"query": ..., "passage": ...}, in the
            place of the model's own; a side that is not named gets none.
        device: auto, cpu or cuda.
        precision: auto, fastest, fp32, tf32, bf16, fp16, int8 or int8+bf16, of the model's
            products; see `docs/recipes.md`.

    Raises:
        InputError: bad texts, ids of the run that are not among those given, no such model, or an
            encoder.
        RowsFailed: scores that are not finite; rows are candidates in the order of the result.
    """
    opened = model_of(model, preset, settings=settings_of(prompts))
    if queries is None and passages is None:
        return _scores_of_tuples(candidates, *placed(opened, device, precision))
    if queries is None or passages is None:
        raise InputError("score: a run needs queries and passages; tuples of texts need neither")
    query_texts, passage_texts = texts_of(queries, "query"), texts_of(passages, "passage")
    k = _candidates(k, opened)
    given = candidates_of(candidates)
    given.refuse_cut(k)
    return _scores_of_run(
        given.run, query_texts, passage_texts, k, *placed(opened, device, precision)
    )


def rerank(
    run: CandidateLists,
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
) -> pa.Table:
    """The run with each query's first k candidates reordered; the others stay below, in order.

    Columns query_id, passage_id, rank from 1 and score float32: the reranker's for the first k, the
    run's own below; the two are never compared. Ties are ordered by the position in `passages`, as
    in a pipeline; without `passages` by ascending passage id, as strings.

    Either the model scores the candidates now, as in `score`, or `scores` are given, from an
    earlier call or any other source; then no queries are needed.

    Args:
        run: a table, a dictionary query id -> passage id -> score, or a path; or candidates without
            ranks and scores, as in `score`, which no blend applies to.
        queries: a list of texts, a dictionary id -> text, or a table with query_id and text.
        passages: likewise; a table has passage_id and text.
        model: `general-mono`, for Python's documentation `minilm-mono` or `minilm-duo`, or the
            folder or hub's name of a reranker.
        scores: the table that `score` returned, of either kind of model, or a dictionary as above.
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
            products; see `docs/recipes.md`.

    Raises:
        InputError: bad input, or a candidate of the first k without a score.
        RowsFailed: the model's scores are not finite.
    """
    methods = [word for word in words(Aggregation) if word != "sample"]
    for name, value, known in (("method", method or "sum", methods), ("tail", tail, words(Tail))):
        if value not in known:
            raise InputError(f"{name}: expected one of {', '.join(known)}; found {value!r}")
    given = candidates_of(run)
    table = given.run
    if blend and given.unordered:
        raise InputError("blend: the candidates have no scores to blend with; give blend=0")
    if k is not None:
        k = count_of("k", k)
    if blend is not None:
        blend = number_of("blend", blend, low=0)
        if scores is not None:
            raise InputError("blend: of a model that scores now, and scores are given; remove it")
    query_texts = None if queries is None else texts_of(queries, "query")
    passage_texts = None if passages is None else texts_of(passages, "passage")
    how = None
    if scores is None:
        if query_texts is None or passage_texts is None:
            raise InputError("rerank: expected scores, or queries and passages to score now")
        opened = model_of(model, preset, settings=settings_of(prompts))
        if opened.reranker.kind == "mono":
            _refuse_method(method)
            how = None if given.unordered else blend_of(opened.reranker, blend)
        elif blend is not None:
            raise InputError("blend: for a monoBERT model; remove it")
        k = _candidates(k, opened)
        given.refuse_cut(k)
        scores = _scores_of_run(
            table, query_texts, passage_texts, k, *placed(opened, device, precision)
        )
    k = k or pc.max(table["rank"]).as_py() or 1
    given.refuse_cut(k)
    query_ids = first_seen([table]) if query_texts is None else query_texts.ids
    ids = ascending([table]) if passage_texts is None else passage_texts.ids
    rows = with_rows(table, query_ids, ids, name="run")
    keyed_scores = held_scores(scores, query_ids, ids)
    columns = [rows[name].to_numpy() for name in ("query_row", "passage_row", "rank")]
    if keyed_scores.of_pairs:
        needed_pairs = pairs(*columns, k1=k)
        ranked = aggregate_by_key(
            rows,
            needed_pairs,
            *keyed_scores[:2],
            method=method or "sum",
            k=k,
            tail=tail,
            scored_by="rerank",
        )
    else:
        _refuse_method(method)
        refuse_missing(singles(*columns, k0=k), keyed_scores, query_ids, ids)
        keys, values = keyed_scores[:2]
        if how is not None:
            values = how.of_run(rows, keys, values, last=k)
        ranked = rerank_by_key(rows, keys, values, k=k, tail=tail, scored_by="rerank")
    return with_ids(ranked, query_ids, ids)


def _side(
    given: Given | Vectors, kind: str, own: Sequence[str] | None, options: dict[str, Any]
) -> tuple[pa.Array, Vectors]:
    """Ids and embeddings of queries or passages."""
    if not _is_vectors(given):
        if own is not None:
            raise InputError(f"{kind}_ids: for embeddings; give texts as a dictionary id -> text")
        texts = texts_of(given, kind)
        return texts.ids, encode(texts.texts, side=kind, **options)
    if given.ndim != 2 or given.dtype != np.float16 or given.shape[1] < 1:
        raise InputError(
            f"{kind} embeddings: found {given.dtype} {list(given.shape)}, expected float16 "
            "[rows, dimension] as `encode` returns; others: .astype(numpy.float16)"
        )
    return ids_of(own, kind, len(given)), given


def _exact(queries: Vectors, passages: Vectors, *, depth: int) -> pa.Table:
    """The run (schema.RUN) of an exact search with two sides of embeddings."""
    from raypipe.engines.exact import topk_block_stream
    from raypipe.stages.run_tables import dense_table

    if passages.shape[1] != queries.shape[1]:
        raise InputError(
            f"passages: embeddings of dimension {passages.shape[1]}, the queries' have "
            f"{queries.shape[1]}; encode both with one model"
        )
    places = max(1, min(depth, len(passages)))
    rows, scores = topk_block_stream(queries, [(0, passages)], depth=places)
    return dense_table(0, rows, scores, scored_by="search")


def _bm25(queries: Texts, passages: Texts, *, depth: int, k1: float, b: float) -> pa.Table:
    if not len(passages.ids) or not len(queries.ids):
        return schema.RUN_FILE.empty_table()
    from raypipe.engines.lucene.index import build_index
    from raypipe.engines.lucene.search import LuceneSearcher, search_all
    from raypipe.stages.run_tables import run_table

    table = pa.table([passages.ids, passages.texts], schema=schema.PASSAGES)
    with TemporaryDirectory() as folder:
        index = Path(folder) / "index"
        if not build_index(lambda: [table], index):
            return schema.RUN_FILE.empty_table()
        searcher = LuceneSearcher(index)
        try:
            hits = search_all(searcher, queries.texts, k1=k1, b=b, depth=depth)
        finally:
            searcher.close()
    return with_ids(run_table(*hits, scored_by="bm25"), queries.ids, passages.ids)


def _is_vectors(given: Any) -> TypeGuard[Vectors]:
    return isinstance(given, np.ndarray) and given.dtype.kind in "fiub"


def _texts_alone(given: Any, kind: str) -> Texts:
    if _is_vectors(given):
        raise InputError(f"{kind} embeddings: bm25 searches texts; name an encoder instead")
    return texts_of(given, kind)


def _candidates(k: int | None, model: "ModelFolder") -> int:
    """Candidates per query: `k`, or the papers' number of them."""
    duo = model.reranker.kind == "duo"
    if k is None:
        return K1 if duo else K0
    if duo and k == 1:
        raise InputError("k: one candidate makes no pair; expected 2 or more for a duoBERT model")
    return count_of("k", k)


def _scores_of_run(
    table: pa.Table, queries: Texts, passages: Texts, k: int, model: "ModelFolder", device: str
) -> pa.Table:
    """The scores of each query's first k candidates, or of their pairs."""
    from raypipe.stages.in_memory import score_texts

    run = with_rows(table, queries.ids, passages.ids, name="run")
    columns = [run[name].to_numpy() for name in ("query_row", "passage_row", "rank")]
    duo = model.reranker.kind == "duo"
    keys = pairs(*columns, k1=k) if duo else singles(*columns, k0=k)
    values = score_texts(model, queries.texts, passages.texts, keys, device=device)
    query_rows, first, second = keys
    scored = {"query_id": queries.ids.take(query_rows), "passage_id": passages.ids.take(first)}
    if not duo:
        return pa.table({**scored, "score": values})
    return pa.table({**scored, "other_id": passages.ids.take(second), "probability": values})


def _scores_of_tuples(given: Any, model: "ModelFolder", device: str) -> NDArray[np.float32]:
    form = "(query, passage i, passage j)" if model.reranker.kind == "duo" else "(query, passage)"
    width = 1 + model.reranker.num_passages
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise InputError(
            f"score: found {type(given).__name__}; expected a list of tuples of texts, {form}, "
            "or a run with its queries and passages"
        )
    for place, each in enumerate(given):
        if not isinstance(each, Sequence) or isinstance(each, str) or len(each) != width:
            raise InputError(
                f"score: candidate {place}: expected {form} for the "
                f"{model.reranker.kind}BERT model {model.path}; found {each!r:.80}"
            )
    columns = list(zip(*given, strict=True)) or [()] * width
    query_texts, query_rows = _distinct(columns[:1], "query")
    passage_texts, rows = _distinct(columns[1:], "passage")
    from raypipe.stages.in_memory import score_texts

    return score_texts(
        model, query_texts, passage_texts, (query_rows[0], rows[0], rows[-1]), device=device
    )


def _distinct(
    columns: Sequence[Sequence[str]], kind: str
) -> tuple[list[str], list[NDArray[np.int64]]]:
    """The distinct texts of the columns, and each column's positions among them."""
    checked = [texts_of(column, kind).texts for column in columns]
    places = {text: place for place, text in enumerate(dict.fromkeys(chain(*checked)))}
    return list(places), [np.array([places[t] for t in texts], np.int64) for texts in checked]


def _refuse_method(method: Aggregation | None) -> None:
    if method is not None:
        raise InputError(f"method: found {method!r}, for pairs of a duoBERT model; remove it")
