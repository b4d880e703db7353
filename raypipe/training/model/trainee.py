"""A model while it is trained: which tensors change, and the forward with gradients."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from raypipe.models.bert.forward import (
    Bert,
    Groups,
    attend_freely,
    first_tokens,
    hidden_states,
    pool,
    read_bert,
)
from raypipe.models.bert.heads import Head, read_head
from raypipe.models.folder.adapters import SEGMENTS
from raypipe.models.folder.conventions import AnyConventions, Conventions
from raypipe.text.inputs import Packed
from raypipe.text.pairs import PackedPairs
from raypipe.training.model.lowrank import LowRank, drawn, linear_names, updated
from raypipe.training.model.starting_tensors import CLASSIFIER, POOLER

Int64 = NDArray[np.int64]


class Trainee:
    """Weights by name, the trained ones with gradients; see `starting_tensors`."""

    def __init__(
        self,
        tensors: Mapping[str, Tensor],
        config: Mapping[str, Any],
        conventions: AnyConventions,
        *,
        low_rank: LowRank | None = None,
        seed: int = 0,
        device: str = "cpu",
        dropout: float = 0.1,
        recompute: bool = False,
        bf16: bool = False,
    ) -> None:
        """All of the tensors are trained; with `low_rank` updates, the head and segments alone."""
        self.conventions, self.config, self.low_rank = conventions, dict(config), low_rank
        self.device, self._dropout = device, dropout
        self._recompute, self._bf16 = recompute, bf16
        if low_rank is None:
            trained = dict(tensors)
        else:
            names = linear_names(tensors, pooler=conventions.kind != "encoder")
            trained = drawn(names, tensors, low_rank.rank, seed)
            whole = [n for n in tensors if n.startswith(CLASSIFIER)]
            whole += [SEGMENTS] if conventions.kind == "duo" else []
            trained |= {name: tensors[name].clone() for name in whole}
        self.weights = {
            name: tensor.to(device).detach().clone().requires_grad_(True)
            for name, tensor in trained.items()
        }
        self._frozen = {n: t.to(device) for n, t in tensors.items() if n not in trained}
        self._training = True

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Without dropout and gradients."""
        self._training = False
        with torch.no_grad():
            try:
                yield
            finally:
                self._training = True

    def bert(self) -> Bert:
        """The encoder of now; its tensors lead back to `weights`."""
        every = {**self._frozen, **self.weights}
        bert = read_bert(every, self.config)
        return bert if self.low_rank is None else updated(bert, every, self.low_rank.scale)

    def head(self) -> Head:
        """A reranker's head of now."""
        assert not isinstance(self.conventions, Conventions)
        every = {**self._frozen, **self.weights}
        head = read_head(every, relevant_label=self.conventions.relevant_label)
        if self.low_rank is None:
            return head
        down, up = every[f"{POOLER}.lora_A.weight"], every[f"{POOLER}.lora_B.weight"]
        pooler = (*head.pooler, down, up * self.low_rank.scale)
        return Head(pooler, head.classifier, head.num_units)

    def units(self, packed: Packed | PackedPairs, segments: Int64) -> Tensor:
        """A reranker's units, fp32 [B, U]."""
        first, _ = self._hidden(packed, segments, first=True)
        return self.head().logits(first, drop=self._drop).float()

    def vectors(self, packed: Packed | PackedPairs, segments: Int64) -> Tensor:
        """An encoder's vectors, fp32 [B, H]."""
        assert isinstance(self.conventions, Conventions)
        hidden, groups = self._hidden(packed, segments, first=False)
        pooling, normalise = self.conventions.pooling, self.conventions.normalise
        return pool(hidden.float(), groups, pooling=pooling, normalise=normalise)

    def _hidden(
        self, packed: Packed | PackedPairs, segments: Int64, *, first: bool
    ) -> tuple[Tensor, Groups]:
        groups: Groups = [(len(list(g)), int(n)) for n, g in groupby(packed.lengths.tolist())]
        ids, positions, of_segment = (
            torch.from_numpy(part).to(self.device)
            for part in (packed.ids, packed.positions, segments)
        )
        rate = self._dropout if self._training else 0.0
        with torch.autocast(self.device, torch.bfloat16, enabled=self._bf16):
            hidden = hidden_states(
                self.bert(),
                ids,
                positions,
                of_segment,
                groups,
                partial(attend_freely, dropout=rate),
                wanted=first_tokens(groups, self.device) if first else None,
                drop=self._drop,
                run_layer=self._run_layer,
            )
        return hidden, groups

    def _drop(self, x: Tensor) -> Tensor:
        rate = self._dropout if self._training else 0.0
        return F.dropout(x, rate) if rate else x

    def _run_layer(self, layer: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        if self._recompute and self._training:
            again: Tensor = checkpoint(layer, x, use_reentrant=False)
            return again
        return layer(x)
