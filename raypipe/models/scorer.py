"""A mono or duo model: pieces of a query and one or two passages in, one score out."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np
import torch
from numpy.typing import NDArray

from raypipe.errors import InputError
from raypipe.models.bert.device import BUDGET_TOKENS, MOST_TOKENS, numerics_class, on_device
from raypipe.models.bert.forward import (
    Bert,
    Groups,
    attend_by_length,
    first_tokens,
    hidden_states,
    read_bert,
)
from raypipe.models.bert.heads import Head, read_head, with_third_segment
from raypipe.models.folder.conventions import PairConventions
from raypipe.models.folder.loading import ModelFolder, load_weights, special_ids
from raypipe.models.neighbours import settle, shapes_of
from raypipe.text.batching import batches
from raypipe.text.pairs import Part, input_lengths, pair_inputs, piece_counts, taken

Float64 = NDArray[np.float64]


class Scorer:
    """Weights on a device; see `load_scorer`."""

    def __init__(
        self,
        model: ModelFolder,
        bert: Bert,
        head: Head,
        device: str,
        numerics: str,
        budget: int | None = None,
    ) -> None:
        """Use `load_scorer`."""
        self._budget = budget or BUDGET_TOKENS[device]
        self.conventions = model.reranker
        self.numerics = numerics
        """Within one such class an input has equal bytes, whatever the inputs beside it."""
        self._bert, self._head, self._device = bert, head, device
        self._cls_id, self._sep_id = special_ids(model)

    def score(
        self,
        query: Part,
        passages: Sequence[Part],
        *,
        budget_tokens: int | None = None,
        beat: Callable[[Sequence[int]], None] = lambda rows: None,
    ) -> NDArray[np.float32]:
        """One score an input, float32 [B]; NaN or infinite where the model gave no number.

        Args:
            query: whole pieces of each input's query; the conventions cut them here.
            passages: those of its passage, or of the two of a duo.
            budget_tokens: tokens of one forward, those of `load_scorer` or fewer; changes no byte.
            beat: told the inputs of each batch before it is computed.
        """
        query, passages = self._cut(query, passages)
        lengths = input_lengths([query, *passages])
        scores = np.empty(len(lengths), np.float32)
        budget = min(budget_tokens or self._budget, MOST_TOKENS[self._device])
        for rows in batches(lengths, budget_tokens=budget):
            beat(rows.tolist())
            logits = self._forward(taken(query, rows), [taken(p, rows) for p in passages])
            scores[rows] = scores_of(logits, self.conventions).astype(np.float32)
        return scores

    def _cut(self, query: Part, passages: Sequence[Part]) -> tuple[Part, list[Part]]:
        assert len(passages) == self.conventions.num_passages
        kept, rest = piece_counts(
            query.counts,
            [passage.counts for passage in passages],
            query_limit=self.conventions.query_limit,
            passage_limit=self.conventions.passage_limit,
            total_limit=self.conventions.total_limit,
        )
        cut = [
            replace(passage, counts=counts) for passage, counts in zip(passages, rest, strict=True)
        ]
        return replace(query, counts=kept), cut

    @torch.inference_mode()
    def _forward(self, query: Part, passages: Sequence[Part]) -> Float64:
        packed = pair_inputs(query, passages, cls_id=self._cls_id, sep_id=self._sep_id)
        groups: Groups = [(len(list(g)), int(n)) for n, g in groupby(packed.lengths.tolist())]
        ids, positions, segments = (
            torch.from_numpy(part).to(self._device)
            for part in (packed.ids, packed.positions, packed.segments)
        )
        wanted = first_tokens(groups, self._device)
        first = hidden_states(
            self._bert, ids, positions, segments, groups, attend_by_length, wanted=wanted
        )
        logits: Float64 = self._head.logits(first).double().cpu().numpy()
        return logits


def scores_of(logits: Float64, conventions: PairConventions) -> Float64:
    """Scores of units, float64 [B], from float64 [B, 1 or 2].

    Two units: softmax over both; one unit: the sigmoid, as sentence-transformers has it.
    Source: the reference takes log-softmax of unit 1 (Nogueira & Cho 2019, Eq. 1's logarithm).
    """
    relevant = 0 if conventions.relevant_label is None else conventions.relevant_label
    own = logits[:, relevant]
    if conventions.score == "raw":
        return own
    margin = own if logits.shape[1] == 1 else own - logits[:, 1 - relevant]
    with np.errstate(invalid="ignore"):  # what is no number stays none and is found later
        log_probability: Float64 = -np.logaddexp(0.0, -margin)
    return log_probability if conventions.score == "log-probability" else np.exp(log_probability)


def load_scorer(
    model: ModelFolder,
    *,
    device: str = "cpu",
    threads: int = 1,
    budget_tokens: int | None = None,
) -> Scorer:
    """The model on a device, fp32; on one thread where more would let rows mix (see `settle`).

    Args:
        model: the folder.
        device: cpu or cuda.
        threads: the most to compute with.
        budget_tokens: tokens of one forward; up to so many rows are tried together.

    Raises:
        InputError: no BERT, no head, missing tensors, limits beyond the model's positions, or a
            third segment that nobody named.
    """
    weights = load_weights(model)
    conventions = model.reranker
    try:
        bert = read_bert(weights, model.config())
        head = read_head(weights, relevant_label=conventions.relevant_label)
        if conventions.kind == "duo":
            table = with_third_segment(bert.segments, conventions.segment_row)
            bert = replace(bert, segments=table)
    except InputError as error:
        raise InputError([f"{model.folder}: {problem}" for problem in error.problems]) from error
    if conventions.total_limit > len(bert.positions):
        raise InputError(
            f"{model.folder}: conventions allow {conventions.total_limit} tokens, the model has "
            f"{len(bert.positions)} positions"
        )
    if len(bert.segments) < 2:
        raise InputError(f"{model.folder}: expected two segment rows, found {len(bert.segments)}")
    moved = replace(
        head,
        pooler=tuple(tensor.to(device) for tensor in head.pooler),
        classifier=tuple(tensor.to(device) for tensor in head.classifier),
    )
    bert = on_device(bert, device)
    shapes = shapes_of(bert, moved.pooler, moved.classifier)
    budget = min(budget_tokens or BUDGET_TOKENS[device], MOST_TOKENS[device])
    rows = max(budget, conventions.total_limit)
    settled = settle(shapes, device=device, threads=threads, rows=rows)
    numerics = numerics_class(device, proven=settled.proven)
    return Scorer(model, bert, moved, device, numerics, budget)
