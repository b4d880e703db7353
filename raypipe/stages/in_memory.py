"""Encodes and scores texts in memory, with the stages' bytes but without stores."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from raypipe.errors import InputError, RowsFailed, RowsRefused
from raypipe.models.encoder import Encoder
from raypipe.models.folder.model_folder import ModelFolder, open_tokenizer
from raypipe.models.folder.settings import AnyConventions
from raypipe.models.load import load_encoder, load_scorer
from raypipe.models.scorer import Scorer
from raypipe.ranking.candidates import Keys
from raypipe.stages.encode import as_stored
from raypipe.stages.sparse import impacts_of
from raypipe.stages.tokenize import tokenized
from raypipe.storage.payloads import Flat, Offsets
from raypipe.text.inputs import TextSlice, taken

ENCODED_ROWS = 8192
"""Number of rows held as fp32 at a time; it changes no byte."""
MODELS_KEPT = 4
"""Number of models that stay open for the next call."""


@dataclass(frozen=True)
class _Wanted:
    """A model to open; two are equal if their files and settings are."""

    model: ModelFolder = field(compare=False)
    files: tuple[str, str, str]
    conventions: AnyConventions
    device: str
    threads: int
    query_table: str | None
    """SHA-256 of the table, if queries are encoded by it."""


@dataclass(frozen=True, slots=True)
class _Opened:
    forward: Encoder | Scorer
    tokenizer: Tokenizer
    threads: int
    """The number of threads with which rows keep their bytes; see `settle`."""


def impacts_of_texts(
    model: ModelFolder, texts: Sequence[str], *, side: str, device: str
) -> tuple[Flat, Offsets]:
    """The impacts that an encode stage of a sparse model would store; see `encode_texts`."""
    with _on_threads(model, device, model.query_table if side == "query" else None) as opened:
        assert isinstance(opened.forward, Encoder)
        pieces = tokenized(opened.tokenizer, model, texts, side)
        return impacts_of(opened.forward, *pieces, side=side)


def encode_texts(
    model: ModelFolder, texts: Sequence[str], *, side: str, device: str
) -> NDArray[np.float16]:
    """The embeddings that an encode stage would store for these texts, fp16 [N, dim].

    Args:
        model: an encoder.
        texts: texts without the model's prefix, which is put before each of them.
        side: query or passage.
        device: cpu or cuda.

    Raises:
        InputError: the model is not an encoder, is a sparse one, or cannot be opened.
        RowsRefused: vectors that are not finite, in fp32 or as fp16; rows are positions.
    """
    own = model.encoder
    if own.is_sparse:
        raise InputError(
            f"{model.path}: a {own.pooling} model, which makes no embeddings: its weights of word "
            "pieces are made and searched by the stages encode and search of a recipe"
        )
    with _on_threads(model, device) as opened:
        forward = opened.forward
        assert isinstance(forward, Encoder)
        flat, offsets = tokenized(opened.tokenizer, model, texts, side)
        out = np.empty((len(texts), forward.dim), np.float16)
        for start in range(0, len(texts), ENCODED_ROWS):
            stop = min(start + ENCODED_ROWS, len(texts))
            try:
                vectors = forward.encode(flat, offsets[start : stop + 1], side=side)
                out[start:stop] = as_stored(vectors)
            except RowsFailed as failed:
                rows = [start + row for row in failed.rows]
                raise RowsRefused(rows, failed.reason) from None
        return out


def score_texts(
    model: ModelFolder, queries: Sequence[str], passages: Sequence[str], keys: Keys, *, device: str
) -> NDArray[np.float32]:
    """The scores that a score stage would store for these candidates, float32 [N].

    Args:
        model: a reranker.
        queries: texts by query row; only those that occur in a key are tokenised.
        passages: texts by passage row; likewise.
        keys: (query row, passage row, other row) of each candidate; a monoBERT model ignores the
            other row.
        device: cpu or cuda.

    Raises:
        InputError: the model is an encoder, or cannot be opened.
        RowsRefused: scores that are not finite; rows are positions in `keys`.
    """
    with _on_threads(model, device) as opened:
        forward = opened.forward
        assert isinstance(forward, Scorer)
        query_rows, *sides = keys[: 1 + model.reranker.num_passages]
        passage_rows = np.concatenate(sides)
        read_queries = _reader(opened.tokenizer, model, queries, "query", query_rows)
        read_passages = _reader(opened.tokenizer, model, passages, "passage", passage_rows)
        scores = forward.score(read_queries(query_rows), [read_passages(rows) for rows in sides])
    bad = np.flatnonzero(~np.isfinite(scores))
    if len(bad):
        raise RowsRefused(bad.tolist(), "the score is not finite")
    return scores


@contextmanager
def _on_threads(
    model: ModelFolder, device: str, query_table: str | None = None
) -> Iterator[_Opened]:
    """The model, with torch set to its number of threads; the caller's settings are restored."""
    before, products = torch.get_num_threads(), torch.get_float32_matmul_precision()
    config = json.dumps(model.forward_config(), sort_keys=True)
    files = (model.weights_sha256, model.tokenizer_sha256, config)
    try:
        opened = _open(_Wanted(model, files, model.conventions, device, before, query_table))
        torch.set_num_threads(opened.threads)
        yield opened
    finally:
        torch.set_num_threads(before)
        torch.set_float32_matmul_precision(products)


@lru_cache(maxsize=MODELS_KEPT)
def _open(wanted: _Wanted) -> _Opened:
    side = None if wanted.query_table is None else "query"
    encoder = wanted.conventions.kind == "encoder"
    load = partial(load_encoder, side=side) if encoder else load_scorer
    forward = load(wanted.model, device=wanted.device, threads=wanted.threads)
    return _Opened(forward, open_tokenizer(wanted.model), torch.get_num_threads())


def _reader(
    tokenizer: Tokenizer,
    model: ModelFolder,
    texts: Sequence[str],
    side: str,
    rows: NDArray[np.int64],
) -> Callable[[NDArray[np.int64]], TextSlice]:
    """Reads the pieces of these rows, each of which is tokenised once, now."""
    named = np.unique(rows)
    flat, offsets = tokenized(tokenizer, model, [texts[row] for row in named.tolist()], side)
    each = TextSlice(flat, offsets[:-1], np.diff(offsets))
    return lambda some: taken(each, np.searchsorted(named, some))
