"""A model in training: which tensors change, low-rank updates, and the forward pass."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from raypipe.models.family import family_of
from raypipe.models.folder.settings import AnyConventions, Conventions, PairConventions
from raypipe.models.packed import Body, Head, Updates, X, attend_freely, first_tokens, groups_of
from raypipe.models.pooling import pool, word_weights
from raypipe.text.inputs import Inputs


@dataclass(frozen=True, slots=True)
class LowRank:
    """W + alpha / rank * up down for every linear layer.

    Source: Hu et al. 2022, section 4.1: down is random, up begins with zeros.
    """

    rank: int
    alpha: float

    @property
    def scale(self) -> float:
        """The factor of the product: alpha / rank."""
        return self.alpha / self.rank


def drawn(names: list[str], base: Mapping[str, Tensor], rank: int, seed: int) -> dict[str, Tensor]:
    """Initial `NAME.lora_A.weight` [rank, in] and `NAME.lora_B.weight` [out, rank]."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name in names:
        num_out, num_in = base[f"{name}.weight"].shape
        bound = math.sqrt(1 / num_in)  # kaiming_uniform with a = sqrt(5), as in peft
        uniform = torch.rand(rank, num_in, generator=generator)
        tensors[f"{name}.lora_A.weight"] = (2 * uniform - 1) * bound
        tensors[f"{name}.lora_B.weight"] = torch.zeros(num_out, rank)
    return tensors


def updates_of(weights: Mapping[str, Tensor], scale: float) -> Updates:
    """(down, up times scale) of each layer that has an update among a training's weights."""
    ends = ".lora_A.weight"
    names = [name.removesuffix(ends) for name in weights if name.endswith(ends)]
    return {n: (weights[n + ends], weights[f"{n}.lora_B.weight"] * scale) for n in names}


class Trainee:
    """Weights by name; the trained ones have gradients. See `starting_tensors`."""

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
        """Trains all tensors; with `low_rank`, only the updates, the head and the segments."""
        self.conventions, self.config, self.low_rank = conventions, dict(config), low_rank
        self.device, self._dropout = device, dropout
        self._recompute, self._bf16 = recompute, bf16
        self._family = family_of(config)
        files = self._family.files
        if low_rank is None:
            trained = dict(tensors)
        else:
            names = files.linear_names(tensors, head=conventions.kind != "encoder")
            trained = drawn(names, tensors, low_rank.rank, seed)
            whole = [name for name in tensors if name in files.HEADS]
            whole += [files.saved_name(files.SEGMENTS, head=True)] * (conventions.kind == "duo")
            trained |= {name: tensors[name].clone() for name in whole}
        self.weights = {
            name: tensor.to(device).detach().clone().requires_grad_(True)
            for name, tensor in trained.items()
        }
        self._frozen = {n: t.to(device) for n, t in tensors.items() if n not in trained}
        self._training = True

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """A context without dropout and gradients."""
        self._training = False
        with torch.no_grad():
            try:
                yield
            finally:
                self._training = True

    def body(self) -> Body:
        """The current encoder; its tensors are connected to `weights` for gradients."""
        every = {**self._frozen, **self.weights}
        return self._family.read(every, self.config, updates=self._updates())

    def head(self) -> Head:
        """The current head of a reranker."""
        assert isinstance(self.conventions, PairConventions)
        every = {**self._frozen, **self.weights}
        return self._family.head(every, self.config, updates=self._updates())

    def _updates(self) -> Updates | None:
        return None if self.low_rank is None else updates_of(self.weights, self.low_rank.scale)

    def units(self, inputs: Inputs) -> Tensor:
        """A reranker's units, fp32 [B, U]."""
        groups, head = groups_of(inputs.lengths), self.head()
        if head.pooling == "cls":
            pooled = self.states(inputs, wanted=first_tokens(groups, self.device))
        else:
            pooled = pool(self.states(inputs).float(), groups, pooling=head.pooling)
        return head.logits(pooled, drop=self._drop).float()

    @property
    def _eps(self) -> float:
        return float(self._family.files.as_bert(self.config)["layer_norm_eps"])

    def predictions(
        self, inputs: Inputs, places: Tensor, *, next_sentence: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Logits of a pre-training, fp32: of the words at `places`, int64 [M], among all V word
        pieces, [M, V], and with `next_sentence` whether B follows A, [B, 2]."""
        firsts = first_tokens(groups_of(inputs.lengths), self.device)
        wanted = torch.cat([firsts, places]) if next_sentence else places
        hidden = self.states(inputs, wanted=wanted)
        heads, eps = self._family.pretraining, self._eps
        with torch.autocast(self.device, torch.bfloat16, enabled=self._bf16):
            words = heads.words(self.weights, hidden[len(hidden) - len(places) :], eps).float()
            if not next_sentence:
                return words, None
            return words, heads.follows(self.weights, hidden[: len(firsts)]).float()

    def vectors(self, inputs: Inputs) -> Tensor:
        """An encoder's vectors, fp32 [B, H]; no start with dense layers or a cut is trained.

        Those of a splade model are the weights of all V word pieces, fp32 [B, V], from 0.
        """
        assert isinstance(self.conventions, Conventions)
        hidden, groups = self.states(inputs), groups_of(inputs.lengths)
        if self.conventions.is_sparse:
            every, eps = {**self._frozen, **self.weights}, self._eps
            pooling = self.conventions.pooling
            head = word_weights(self._family.pretraining.word_head(every), eps, pooling)
            with torch.autocast(self.device, torch.bfloat16, enabled=self._bf16):
                return head.of_groups(hidden, groups, run=self._run_layer)
        pooled = pool(hidden.float(), groups, pooling=self.conventions.pooling)
        return F.normalize(pooled, dim=1) if self.conventions.normalise else pooled

    def states(self, inputs: Inputs, *, wanted: Tensor | None = None) -> Tensor:
        """Last hidden states of all tokens [T, H], or of the tokens `wanted`, int64 [W], [W, H]."""
        groups = groups_of(inputs.lengths)
        ids, positions, segments = (
            torch.from_numpy(part).to(self.device)
            for part in (inputs.ids, inputs.positions, inputs.segments)
        )
        rate = self._dropout if self._training else 0.0
        with torch.autocast(self.device, torch.bfloat16, enabled=self._bf16):
            hidden: Tensor = self._family.forward(
                self.body(),
                ids,
                positions,
                segments,
                groups,
                partial(attend_freely, dropout=rate),
                wanted=wanted,
                drop=self._drop,
                run_layer=self._run_layer,
            )
        return hidden

    def _drop(self, x: Tensor) -> Tensor:
        rate = self._dropout if self._training else 0.0
        return F.dropout(x, rate) if rate else x

    def _run_layer(self, layer: Callable[[X], X], x: X) -> X:
        if self._recompute and self._training:
            again: X = checkpoint(layer, x, use_reentrant=False)
            return again
        return layer(x)
