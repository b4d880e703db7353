"""Texts as embeddings, and searches of passages held in memory."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeGuard

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe import schema
from raypipe.api.inputs import (
    Given,
    Texts,
    count_of,
    ids_of,
    model_of,
    number_of,
    placed,
    settings_of,
    texts_of,
)
from raypipe.errors import InputError
from raypipe.ranking.by_id import with_ids
from raypipe.vocabulary import BM25_B, BM25_K1, DEPTH

SIDES = ("passage", "query")


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
            products; see `docs/commands.md`.

    Raises:
        InputError: no texts, no such model, or a model that is not an encoder.
        RowsFailed: embeddings that are not finite, with their rows.
    """
    if side not in SIDES:
        raise InputError(f"side: expected one of {', '.join(SIDES)}; found {side!r}")
    found = texts_of(texts, side)
    opened = model_of(model, preset, settings=settings_of(prompts))
    assert opened.encoder.kind == "encoder"  # otherwise `encoder` raises
    from raypipe.stages.in_memory import encode_texts

    opened, where = placed(opened, device, precision)
    return encode_texts(opened, found.texts, side=side, device=where)


Vectors = NDArray[np.float16]


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
            products; see `docs/commands.md`.

    Raises:
        InputError: bad texts or ids, embeddings that do not fit or are not finite, no such model.
        RowsFailed: embeddings that are not finite, with their rows.
    """
    depth = count_of("depth", depth)
    if model == "bm25":
        asked, answers = _texts_alone(queries, "query"), _texts_alone(passages, "passage")
        k1, b = number_of("k1", k1, low=0), number_of("b", b, low=0, high=1)
        return _bm25(asked, answers, depth=min(depth, len(answers.ids)), k1=k1, b=b)
    options = {"model": model, "preset": preset, "prompts": prompts}
    options |= {"device": device, "precision": precision}
    query_names, query_vectors = _side(queries, "query", query_ids, options)
    passage_names, passage_vectors = _side(passages, "passage", passage_ids, options)
    run = _exact(query_vectors, passage_vectors, depth=depth)
    return with_ids(run, query_names, passage_names)


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
            found = search_all(searcher, queries.texts, k1=k1, b=b, depth=depth)
        finally:
            searcher.close()
    return with_ids(run_table(*found, scored_by="bm25"), queries.ids, passages.ids)


def _is_vectors(given: Any) -> TypeGuard[Vectors]:
    return isinstance(given, np.ndarray) and given.dtype.kind in "fiub"


def _texts_alone(given: Any, kind: str) -> Texts:
    if _is_vectors(given):
        raise InputError(f"{kind} embeddings: bm25 searches texts; name an encoder instead")
    return texts_of(given, kind)
