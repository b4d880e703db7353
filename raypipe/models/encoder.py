"""An encoder: word pieces in, one vector a row out, each as if it were alone."""

from collections.abc import Callable, Sequence
from itertools import groupby

import numpy as np
import torch
from numpy.typing import NDArray

from raypipe.errors import InputError, RowsFailed
from raypipe.models.bert.device import BUDGET_TOKENS, MOST_TOKENS, numerics_class, on_device
from raypipe.models.bert.forward import (
    Bert,
    Groups,
    attend_by_length,
    hidden_states,
    pool,
    read_bert,
)
from raypipe.models.folder.loading import ModelFolder, load_weights, special_ids
from raypipe.models.neighbours import settle, shapes_of
from raypipe.text.batching import batches
from raypipe.text.inputs import encoder_inputs, input_lengths


class Encoder:
    """Weights on a device; see `load_encoder`."""

    def __init__(
        self, model: ModelFolder, bert: Bert, device: str, numerics: str, budget: int
    ) -> None:
        """Use `load_encoder`."""
        self._budget = budget
        self.conventions = model.encoder
        self.dim = bert.words.shape[1]
        self.numerics = numerics
        """Within one such class a row has equal bytes, whatever the rows beside it."""
        self._bert, self._device = bert, device
        self._cls_id, self._sep_id = special_ids(model)

    def encode(
        self,
        flat: NDArray[np.uint16 | np.uint32],
        offsets: NDArray[np.int64],
        *,
        side: str,
        budget_tokens: int | None = None,
        beat: Callable[[Sequence[int]], None] = lambda rows: None,
    ) -> NDArray[np.float32]:
        """Vectors of all rows in order, fp32 [N, dim].

        Args:
            flat: word pieces of all rows.
            offsets: int64 [N + 1].
            side: query or passage; decides limit and segment.
            budget_tokens: tokens of one forward, those of `load_encoder` or fewer; changes no byte.
            beat: told the rows of each batch before it is computed.

        Raises:
            RowsFailed: vectors that are not finite.
        """
        limit = self.conventions.limit(side)
        lengths = input_lengths(offsets, limit=limit)
        out = np.empty((len(lengths), self.dim), np.float32)
        budget = min(budget_tokens or self._budget, MOST_TOKENS[self._device])
        for rows in batches(lengths, budget_tokens=budget):
            beat(rows.tolist())
            out[rows] = self._forward(flat, offsets, rows, limit, self.conventions.segment(side))
        bad = np.flatnonzero(~np.isfinite(out).all(axis=1))
        if len(bad):
            raise RowsFailed(bad.tolist(), "the vector is not finite")
        return out

    @torch.inference_mode()
    def _forward(
        self,
        flat: NDArray[np.uint16 | np.uint32],
        offsets: NDArray[np.int64],
        rows: NDArray[np.int64],
        limit: int,
        segment: int,
    ) -> NDArray[np.float32]:
        packed = encoder_inputs(
            flat, offsets, rows, limit=limit, cls_id=self._cls_id, sep_id=self._sep_id
        )
        groups: Groups = [(len(list(g)), int(n)) for n, g in groupby(packed.lengths.tolist())]
        ids = torch.from_numpy(packed.ids).to(self._device)
        positions = torch.from_numpy(packed.positions).to(self._device)
        hidden = hidden_states(self._bert, ids, positions, segment, groups, attend_by_length)
        pooled = pool(
            hidden,
            groups,
            pooling=self.conventions.pooling,
            normalise=self.conventions.normalise,
        )
        vectors: NDArray[np.float32] = pooled.cpu().numpy()
        return vectors


def load_encoder(
    model: ModelFolder,
    *,
    device: str = "cpu",
    threads: int = 1,
    budget_tokens: int | None = None,
) -> Encoder:
    """The model on a device, fp32; on one thread where more would let rows mix (see `settle`).

    Args:
        model: the folder.
        device: cpu or cuda.
        threads: the most to compute with.
        budget_tokens: tokens of one forward; up to so many rows are tried together.

    Raises:
        InputError: no BERT, missing tensors, or limits beyond the model's positions or segments.
    """
    bert = on_device(read_bert(load_weights(model), model.config()), device)
    _check_fits(model, bert)
    budget = min(budget_tokens or BUDGET_TOKENS[device], MOST_TOKENS[device])
    rows = max(budget, model.encoder.query_limit + 2, model.encoder.passage_limit + 2)
    settled = settle(shapes_of(bert), device=device, threads=threads, rows=rows)
    numerics = numerics_class(device, proven=settled.proven)
    return Encoder(model, bert, device, numerics, budget)


def _check_fits(model: ModelFolder, bert: Bert) -> None:
    conventions = model.encoder
    longest = max(conventions.query_limit, conventions.passage_limit) + 2
    highest = max(conventions.query_segment, conventions.passage_segment)
    problems = []
    if longest > len(bert.positions):
        problems.append(
            f"{model.folder}: conventions allow {longest} tokens, the model has "
            f"{len(bert.positions)} positions"
        )
    if highest >= len(bert.segments):
        problems.append(
            f"{model.folder}: conventions use segment {highest}, the model has "
            f"{len(bert.segments)} segment rows"
        )
    if problems:
        raise InputError(problems)
