"""From the hidden states of an encoder's tokens to its embedding.

One vector per sequence, and what follows pooling: dense layers, a cut to the first dimensions, and
length 1.

Shapes: T tokens of a batch, H hidden, B sequences, R inputs of a pass of fixed shape at most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor

from raypipe.models.folder.model_folder import ModelFolder, check_unchanged, here
from raypipe.models.folder.sentence_transformers import WEIGHTS, DenseFile
from raypipe.models.packed import Groups, Linear, Product, linear
from raypipe.storage.records import hash_file

_OF_STATES: Mapping[str, Callable[[Tensor], Tensor]] = {
    "mean": lambda states: states.mean(dim=1),
    "cls": lambda states: states[:, 0],
    "max": lambda states: states.amax(dim=1),
    "last": lambda states: states[:, -1],
}
"""[B, L, H] -> [B, H]."""


def pool(hidden_TH: Tensor, groups: Groups, *, pooling: str) -> Tensor:
    """One vector per sequence, in order, fp32 [B, H], from all its tokens, special ones included.

    It is their mean, the largest value of each dimension, or the first or last token's state.
    """
    parts = []
    start = 0
    for count, length in groups:
        stop = start + count * length
        parts.append(_OF_STATES[pooling](hidden_TH[start:stop].view(count, length, -1)))
        start = stop
    return torch.cat(parts)


def pool_between(hidden_TH: Tensor, edges: Tensor, *, pooling: str) -> Tensor:
    """Like `pool`, [R, H], of the sequences that `edges`, int64 [R + 1], begin and end.

    An empty sequence has some finite vector, which nobody reads.
    """
    first, behind = edges[:-1], edges[1:]
    if pooling == "cls":
        return hidden_TH[first.clamp(max=len(hidden_TH) - 1)]
    if pooling == "last":
        return hidden_TH[(behind - 1).clamp(min=0)]
    lengths = torch.diff(edges)[:, None]
    if pooling == "max":
        found = torch.segment_reduce(hidden_TH, "max", offsets=edges, unsafe=True)
        return found.masked_fill(lengths == 0, 0)
    # One sum after the other for each number: an order that no other input changes.
    sums = torch.segment_reduce(hidden_TH, "sum", offsets=edges, initial=0, unsafe=True)
    return sums / lengths.clamp(min=1)


_ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "identity": lambda x: x,
    "tanh": torch.tanh,
}


@dataclass(frozen=True, slots=True)
class Dense:
    """A linear layer and what is computed of its result."""

    weights: Linear
    """fp32; the bias of a layer without one is zeros."""
    activation: str


@dataclass(frozen=True, slots=True)
class Finishing:
    """Computes embeddings from pooled states, in fp32 whatever the model's precision."""

    steps: tuple[Dense | None, ...] = ()
    """In order; None divides each vector by its length."""
    truncate_dim: int | None = None
    """How many of the first dimensions are kept after the steps; None means all."""
    normalise: bool = False
    """Whether the embeddings have length 1; this is the last step."""

    @property
    def linears(self) -> list[Linear]:
        """The dense layers, whose products are tested for effects of neighbouring rows."""
        return [step.weights for step in self.steps if step is not None]

    def dim(self, width: int) -> int:
        """Dimensions of the embeddings of a model whose states have `width`."""
        for weight, _ in self.linears:
            width = len(weight)
        return width if self.truncate_dim is None else self.truncate_dim

    def to(self, device: str) -> Finishing:
        """The layers on `cpu` or `cuda`."""

        def moved(step: Dense | None) -> Dense | None:
            if step is None:
                return None
            return replace(step, weights=tuple(tensor.to(device) for tensor in step.weights))

        return replace(self, steps=tuple(map(moved, self.steps)))

    def embeddings(self, pooled_BH: Tensor, *, product: Product = linear) -> Tensor:
        """One embedding per pooled state, fp32 [B, dim]; `product` computes dense layers."""
        found = pooled_BH
        for step in self.steps:
            if step is None:
                found = F.normalize(found, dim=1)
            else:
                found = _ACTIVATIONS[step.activation](product(found, step.weights))
        found = found[:, : self.truncate_dim]
        return F.normalize(found, dim=1) if self.normalise else found


def load_finishing(model: ModelFolder) -> Finishing:
    """What follows a model's pooling.

    Raises:
        InputError: a dense layer's file changed since it was hashed.
    """
    own = model.encoder
    folder = here(model).folder
    steps = (None if layer is None else _opened(folder, layer) for layer in model.dense)
    return Finishing(tuple(steps), own.truncate_dim, own.normalise)


def _opened(folder: Path, layer: DenseFile) -> Dense:
    file = folder / layer.folder / WEIGHTS
    check_unchanged(f"{file}: expected weights", layer.sha256, hash_file(file))
    tensors = {name: tensor.float() for name, tensor in load_file(file).items()}
    weight = tensors["linear.weight"]
    bias = tensors.get("linear.bias", torch.zeros(len(weight)))
    return Dense((weight, bias), layer.activation)
