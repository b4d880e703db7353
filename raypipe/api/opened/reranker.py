"""A reranker that is opened once and ranks the texts of one query after another."""

from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from raypipe.api.inputs import count_of, is_table, model_of, placed, settings_of, texts_of
from raypipe.errors import InputError, RowsFailed
from raypipe.ranking.aggregate import aggregate
from raypipe.ranking.candidates import Keys, pairs, singles
from raypipe.vocabulary import K1, Aggregation, words

if TYPE_CHECKING:
    from raypipe.models.folder.model_folder import ModelFolder

NOT_LISTS = (str, bytes, Mapping, Set)
"""One text, or what has no positions."""


class Ranked(NamedTuple):
    """A text with its score."""

    index: int  # type: ignore[assignment]  # in the place of the method of tuples
    """Its position among the texts that were given, from 0."""
    score: float
    text: str


def open_reranker(
    model: str | Path = "minilm-mono",
    *,
    method: Aggregation | None = None,
    preset: str | None = None,
    prompts: Mapping[str, str] | None = None,
    device: str = "auto",
    precision: str = "auto",
) -> "Reranker":
    """A reranker whose `rank` orders texts by their relevance to a query.

    Its files are hashed and checked here, once; its weights are read at the first call.

    Args:
        model: `general-mono`, `minilm-mono`, `minilm-duo`, or the folder or hub's name of
            a reranker.
        method: for a duoBERT model's pairs: sum (the default), binary, min, max, symmetric-sum or
            symmetric-log-sum.
        preset: settings by name, if the model's folder does not state them.
        prompts: text put in front of queries and passages, {"query": ..., "passage": ...}, in the
            place of the model's own; a side that is not named gets none.
        device: auto, cpu or cuda.
        precision: auto, fastest, fp32, tf32, bf16, fp16, int8 or int8+bf16, of the model's
            products; see `docs/commands.md`.

    Raises:
        InputError: no such model, an encoder, or a method that does not fit.
    """
    methods = [word for word in words(Aggregation) if word != "sample"]
    if method not in (None, *methods):
        raise InputError(f"method: expected one of {', '.join(methods)}; found {method!r}")
    opened = model_of(model, preset, settings=settings_of(prompts))
    if opened.reranker.kind == "mono" and method is not None:
        raise InputError(f"method: found {method!r}, for pairs of a duoBERT model; remove it")
    return Reranker(*placed(opened, device, precision), method or "sum")


class Reranker:
    """An opened reranker: a monoBERT, duoBERT, monoT5 or duoT5 model."""

    def __init__(self, model: "ModelFolder", device: str, method: str) -> None:
        """Use `open_reranker`."""
        self._model, self._device, self._method = model, device, method

    @property
    def kind(self) -> str:
        """mono or duo."""
        return self._model.reranker.kind

    def rank(self, query: str, texts: Iterable[str], top_k: int | None = None) -> list[Ranked]:
        """The texts by score descending, equal scores by index ascending; all, or the first top_k.

        A monoBERT model's scores are those of `raypipe score` without a blend, as texts have no
        score of a first stage; equal texts have one score. The other texts do not change it, but
        for the last bits of a model that transformers computes (docs/models.md). A duoBERT model
        compares every text with every other, n(n - 1) pairs of n texts, and its scores are the
        aggregated probabilities; a text alone has the score 0.

        Args:
            query: one text.
            texts: a list, an array or a generator; of a duoBERT model at most 50.
            top_k: number of texts to return.

        Raises:
            InputError: anything but texts, or too many for pairs.
            RowsFailed: scores that are not finite; rows are the indexes of their texts.
        """
        if not isinstance(query, str):
            raise InputError(f"query: expected one text; found {type(query).__name__}")
        if not isinstance(texts, Iterable) or isinstance(texts, NOT_LISTS) or is_table(texts):
            raise InputError(
                f"texts: found {type(texts).__name__}; expected a list of texts, whose positions "
                "are the index; `raypipe.rerank` takes a dictionary id -> text or a table"
            )
        asked, given = texts_of([query], "query").texts, texts_of(texts, "passage").texts
        first = len(given) if top_k is None else count_of("top_k", top_k)
        scores = self._scores(asked, given)
        order = np.lexsort((np.arange(len(given)), -scores))[:first]
        return [Ranked(at, float(scores[at]), given[at]) for at in order.tolist()]

    def _scores(self, query: list[str], texts: list[str]) -> NDArray[np.float32]:
        """One score per text, float32."""
        keys = self._keys(len(texts))
        found = self._scored_once(query, texts, keys)
        if self.kind == "mono":
            return found
        _, rows, aggregated = aggregate(keys, found, method=self._method)
        scores = np.zeros(len(texts), np.float32)  # of one text, which is in no pair
        scores[rows] = aggregated
        return scores

    def _scored_once(self, query: list[str], texts: list[str], keys: Keys) -> NDArray[np.float32]:
        """One score per key, float32; of keys with equal texts, one is computed."""
        from raypipe.stages.in_memory import score_texts

        row_of = {text: row for row, text in enumerate(texts)}  # one row for equal texts
        rows = np.array([row_of[text] for text in texts], np.int64)
        sides = [rows[side] for side in keys[1 : 1 + self._model.reranker.num_passages]]
        distinct, at = np.unique(np.stack(sides), axis=1, return_inverse=True)
        wanted = np.zeros(distinct.shape[1], np.int64), distinct[0], distinct[-1]
        try:
            found = score_texts(self._model, query, texts, wanted, device=self._device)
        except RowsFailed as failed:
            bad = keys[1][np.isin(at.ravel(), failed.rows)]
            raise RowsFailed(np.unique(bad).tolist(), failed.reason) from None
        return found[at.ravel()]

    def _keys(self, count: int) -> Keys:
        """The texts, or their ordered pairs."""
        rows = np.arange(count)
        lines: Any = np.zeros(count, np.int32), rows, (rows + 1).astype(np.int32)
        if self.kind == "mono":
            return singles(*lines, k0=max(1, count))
        if count > K1:
            raise InputError(
                f"texts: found {count:,}, of which a duoBERT model would score "
                f"{count * (count - 1):,} pairs; expected at most {K1}: rank them with a monoBERT "
                f"model first and give its first {K1}, or use `raypipe.rerank`, which takes k"
            )
        return pairs(*lines, k1=max(1, count))

    def __repr__(self) -> str:
        return f"<{self.kind} model {self._model.path}>"
