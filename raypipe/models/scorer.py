"""A reranker: one score from the pieces of a query and one or two passages."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from raypipe.models.folder.model_folder import ModelFolder
from raypipe.models.folder.settings import PairConventions
from raypipe.models.gpu.passes import FixedEngine
from raypipe.models.machine.device import Place
from raypipe.models.packed import Body, Groups, Head
from raypipe.models.packed_forward import PackedForward
from raypipe.models.pooling import pool
from raypipe.text.inputs import Layouts, TextSlice, cut_to

Float64 = NDArray[np.float64]


class Scorer:
    """Weights on a device; see `raypipe.models.load`."""

    def __init__(
        self,
        model: ModelFolder,
        body: Body,
        head: Head,
        layouts: Layouts,
        place: Place,
        engine: FixedEngine | None = None,
    ) -> None:
        """Use `raypipe.models.load`."""
        self.conventions = model.reranker
        self.numerics = place.numerics
        """The numerics class, within which an input has equal bytes, whatever the inputs beside
        it."""
        self.engine = engine
        """As in Encoder."""
        self._layout, pooling = layouts["pair"], head.pooling
        firsts = pooling == "cls"

        def finish(states: Tensor, groups: Groups) -> Tensor:
            return head.logits(states if firsts else pool(states, groups, pooling=pooling))

        self._forward = PackedForward(model.family, body, place, finish, engine, firsts=firsts)

    def score(
        self,
        query: TextSlice,
        passages: Sequence[TextSlice],
        *,
        budget_tokens: int | None = None,
        beat: Callable[[Sequence[int]], None] = lambda rows: None,
    ) -> NDArray[np.float32]:
        """One score per input, float32 [B]; NaN or infinite if the model's result is.

        Args:
            query: all pieces of each input's query; they are cut here to the limits.
            passages: those of its passage, or of a duoBERT model's two passages.
            budget_tokens: tokens in one forward pass, at most those that it was loaded
                with; changes no byte.
            beat: called with the inputs of each batch before it is computed.
        """
        texts = self._cut(query, passages)
        scores = np.empty(len(texts[0].counts), np.float32)
        for rows, units_of_rows in self._forward.results(texts, self._layout, budget_tokens, beat):
            scores[rows] = scores_of(units_of_rows.astype(np.float64), self.conventions)
        return scores

    def num_tokens(self, query: TextSlice, passages: Sequence[TextSlice]) -> int:
        """The number of tokens that `score` reads of such inputs, special tokens included."""
        return int(self._lengths(self._cut(query, passages)).sum())

    def _lengths(self, texts: Sequence[TextSlice]) -> NDArray[np.int64]:
        return self._layout.lengths([text.counts for text in texts])

    def _cut(self, query: TextSlice, passages: Sequence[TextSlice]) -> list[TextSlice]:
        assert len(passages) == self.conventions.num_passages
        return cut_to(self.conventions, query, passages, num_specials=self._layout.num_specials)


def scores_of(logits: Float64, conventions: PairConventions) -> Float64:
    """Scores of units, float64 [B], from float64 [B, 1 or 2].

    Two units: softmax over both. One unit: the sigmoid, as in sentence-transformers.
    Source: the reference takes log-softmax of unit 1 (Nogueira & Cho 2019, Eq. 1's logarithm).
    """
    relevant = 0 if conventions.relevant_label is None else conventions.relevant_label
    own = logits[:, relevant]
    if conventions.score == "raw":
        return own
    margin = own if logits.shape[1] == 1 else own - logits[:, 1 - relevant]
    with np.errstate(invalid="ignore"):  # NaN stays NaN and is found later
        log_probability: Float64 = -np.logaddexp(0.0, -margin)
    return log_probability if conventions.score == "log-probability" else np.exp(log_probability)
